//! Requested bytes of live tensors, by purpose; those in the host's tier are one of them.

use super::{Block, ByCategory, Category, Event, Module};

/// The live tensors during a replay; host memory does not count.
#[derive(Debug)]
pub struct LiveTensors {
    blocks: Vec<Live>,
    by_category: ByCategory,
    /// Bytes of activations and temporaries of the head and of the loss.
    of_loss: u64,
    /// True while the head or the loss is at work.
    is_in_loss: bool,
}

/// A block.
#[derive(Debug, Clone, Copy)]
struct Live {
    /// Requested bytes.
    bytes: u64,
    category: Category,
    /// True if the head or the loss made it.
    is_of_loss: bool,
}

impl Live {
    const NONE: Self = Self {
        bytes: 0,
        category: Category::Host,
        is_of_loss: false,
    };

    /// Its bytes, if they are the loss's own: logits, and what is computed from them.
    fn of_loss(self) -> u64 {
        let is_own = self.is_of_loss && matches!(self.category, Category::Activation | Category::Temporary);
        if is_own { self.bytes } else { 0 }
    }
}

impl LiveTensors {
    /// Nothing is live yet of a trace with this many blocks.
    pub fn new(blocks: usize) -> Self {
        Self {
            blocks: vec![Live::NONE; blocks],
            by_category: ByCategory::default(),
            of_loss: 0,
            is_in_loss: false,
        }
    }

    /// Follows an event.
    #[inline]
    pub fn apply(&mut self, event: &Event) {
        match *event {
            Event::Alloc { block, bytes, category } => {
                self.alloc(block, bytes, category);
            }
            Event::Free { block } => {
                self.free(block);
            }
            Event::Label { block, category } => self.label(block, category),
            Event::Module(module) => self.enter(module),
            _ => {}
        }
    }

    /// Adds a block. Returns its requested bytes, 0 if it is no tensor of the device.
    #[inline]
    pub fn alloc(&mut self, block: Block, bytes: u64, category: Category) -> u64 {
        let live = Live {
            bytes,
            category,
            is_of_loss: self.is_in_loss,
        };
        self.blocks[block.index()] = live;
        if category == Category::Host {
            return 0;
        }
        self.by_category[category] += bytes;
        self.of_loss += live.of_loss();
        of_device(bytes, category)
    }

    /// Removes a block. Returns its requested bytes, 0 if it is no tensor of the device.
    #[inline]
    pub fn free(&mut self, block: Block) -> u64 {
        let live @ Live { bytes, category, .. } = self.blocks[block.index()];
        if category == Category::Host {
            return 0;
        }
        self.by_category[category] -= bytes;
        self.of_loss -= live.of_loss();
        of_device(bytes, category)
    }

    /// Changes a block's category.
    #[inline]
    pub fn label(&mut self, block: Block, category: Category) {
        let live = &mut self.blocks[block.index()];
        self.by_category[live.category] -= live.bytes;
        self.by_category[category] += live.bytes;
        self.of_loss -= live.of_loss();
        live.category = category;
        self.of_loss += live.of_loss();
    }

    /// Begins the work of a module.
    #[inline]
    pub fn enter(&mut self, module: Module) {
        self.is_in_loss = module.is_of_loss();
    }

    /// Live bytes of the host's tier.
    pub fn offloaded(&self) -> u64 {
        self.by_category[Category::Offloaded]
    }

    /// Live bytes of activations and temporaries that the head and the loss made.
    pub fn of_loss(&self) -> u64 {
        self.of_loss
    }

    /// Live bytes of each category.
    pub fn by_category(&self) -> ByCategory {
        self.by_category
    }
}

fn of_device(bytes: u64, category: Category) -> u64 {
    if category.is_tensor() { bytes } else { 0 }
}
