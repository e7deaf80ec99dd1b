//! What training allocates and releases, in order: the stacks write it, the accounts and the allocator read it.

use crate::memory::{Category, Phase};

/// Events from the load on. Nothing is ever released twice, and what is still there at the end is alive.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    events: Vec<Event>,
    blocks: u32,
}

/// A piece of memory; numbered from 0 in the order in which they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block(u32);

impl Block {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Alloc {
        block: Block,
        /// As asked for, before any allocator rounds it.
        bytes: u64,
        category: Category,
    },
    Free {
        block: Block,
    },
    /// It turns out what a block is for.
    Label {
        block: Block,
        category: Category,
    },
    /// What follows is done in this phase.
    Phase(Phase),
    /// What follows is done for this part of the model.
    Module(Module),
    /// The optimizer step with this number begins, from 1.
    Step(u32),
    /// The optimizer step is done; its gradients are there yet.
    StepEnd,
    /// The allocator gives back what it keeps (`torch.cuda.empty_cache`).
    EmptyCache,
}

/// A part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Module {
    /// Such as `mlp` or `lm_head`.
    pub name: &'static str,
    /// The block it belongs to.
    pub layer: Option<u16>,
}

impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "layers.{layer}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl Trace {
    pub fn new() -> Self {
        Self::default()
    }

    /// With room for so many events.
    pub fn with_capacity(events: usize) -> Self {
        Self {
            events: Vec::with_capacity(events),
            blocks: 0,
        }
    }

    /// Makes room for so many events more.
    pub fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many blocks were ever asked for.
    pub fn blocks(&self) -> usize {
        self.blocks as usize
    }

    pub fn alloc(&mut self, bytes: u64, category: Category) -> Block {
        let block = Block(self.blocks);
        self.blocks += 1;
        self.events.push(Event::Alloc { block, bytes, category });
        block
    }

    pub fn free(&mut self, block: Block) {
        self.events.push(Event::Free { block });
    }

    pub fn label(&mut self, block: Block, category: Category) {
        self.events.push(Event::Label { block, category });
    }

    pub fn phase(&mut self, phase: Phase) {
        self.events.push(Event::Phase(phase));
    }

    pub fn module(&mut self, name: &'static str, layer: Option<u16>) {
        self.events.push(Event::Module(Module { name, layer }));
    }

    pub fn step(&mut self, number: u32) {
        self.events.push(Event::Step(number));
    }

    pub fn step_end(&mut self) {
        self.events.push(Event::StepEnd);
    }

    pub fn empty_cache(&mut self) {
        self.events.push(Event::EmptyCache);
    }
}
