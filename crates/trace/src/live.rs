//! Requested bytes of live tensors, by purpose; those in the host's tier are one of them.

use super::{Block, ByCategory, Category, Event};

/// The live tensors during a replay; host memory does not count.
#[derive(Debug)]
pub struct LiveTensors {
    /// Requested bytes and category of each block.
    blocks: Vec<(u64, Category)>,
    by_category: ByCategory,
}

impl LiveTensors {
    /// Nothing is live yet of a trace with this many blocks.
    pub fn new(blocks: usize) -> Self {
        Self {
            blocks: vec![(0, Category::Host); blocks],
            by_category: ByCategory::default(),
        }
    }

    /// Follows an event.
    pub fn apply(&mut self, event: &Event) {
        match *event {
            Event::Alloc { block, bytes, category } => {
                self.alloc(block, bytes, category);
            }
            Event::Free { block } => {
                self.free(block);
            }
            Event::Label { block, category } => self.label(block, category),
            _ => {}
        }
    }

    /// Adds a block. Returns its requested bytes, 0 if it is no tensor of the device.
    pub fn alloc(&mut self, block: Block, bytes: u64, category: Category) -> u64 {
        self.blocks[block.index()] = (bytes, category);
        if category == Category::Host {
            return 0;
        }
        self.by_category[category] += bytes;
        of_device(bytes, category)
    }

    /// Removes a block. Returns its requested bytes, 0 if it is no tensor of the device.
    pub fn free(&mut self, block: Block) -> u64 {
        let (bytes, category) = self.blocks[block.index()];
        if category == Category::Host {
            return 0;
        }
        self.by_category[category] -= bytes;
        of_device(bytes, category)
    }

    /// Changes a block's category.
    pub fn label(&mut self, block: Block, category: Category) {
        let (bytes, label) = &mut self.blocks[block.index()];
        self.by_category[*label] -= *bytes;
        self.by_category[category] += *bytes;
        *label = category;
    }

    /// Live bytes of the host's tier.
    pub fn offloaded(&self) -> u64 {
        self.by_category[Category::Offloaded]
    }

    /// Live bytes of each category.
    pub fn by_category(&self) -> ByCategory {
        self.by_category
    }
}

fn of_device(bytes: u64, category: Category) -> u64 {
    if category.is_tensor() { bytes } else { 0 }
}
