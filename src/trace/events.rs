//! The allocations and releases of training, in order. The stacks write them; accounts and allocators read them.

use std::ops::Range;

use super::{Category, Module, Phase};

/// Events from the load on. A block is allocated once before it is freed, and a block that is not freed is live at the
/// end.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Each event once, however often it happens.
    written: Vec<Event>,
    /// The order of events, as ranges of `written`.
    passes: Vec<Range<usize>>,
    /// The first event that is in no pass yet; it and those after it follow the passes.
    rest: usize,
    blocks: u32,
}

/// A piece of memory, numbered from 0 in the order of allocation. Repeated events repeat the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block(u32);

impl Block {
    /// The block's number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An event of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block is allocated.
    Alloc {
        /// The new block.
        block: Block,
        /// The requested size, before an allocator rounds it.
        bytes: u64,
        /// Its purpose, as far as it is known.
        category: Category,
    },
    /// A block is freed.
    Free {
        /// The block.
        block: Block,
    },
    /// The purpose of a block is known now.
    Label {
        /// The block.
        block: Block,
        /// Its purpose.
        category: Category,
    },
    /// The following events belong to this phase.
    Phase(Phase),
    /// The following events belong to this module.
    Module(Module),
    /// The optimizer step with this number begins, from 1.
    Step(u32),
    /// The optimizer step ends; its gradients are still live.
    StepEnd,
    /// The allocator returns its cache to the device (`torch.cuda.empty_cache`).
    EmptyCache,
}

impl Trace {
    /// An empty trace.
    pub const fn new() -> Self {
        Self {
            written: Vec::new(),
            passes: Vec::new(),
            rest: 0,
            blocks: 0,
        }
    }

    /// An empty trace with room for `events` events.
    pub fn with_capacity(events: usize) -> Self {
        Self {
            written: Vec::with_capacity(events),
            ..Self::default()
        }
    }

    /// All events in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.passes().flatten()
    }

    /// All events in order, as a few long slices: faster to walk than [`Trace::events`].
    pub fn passes(&self) -> impl Iterator<Item = &[Event]> {
        let rest = self.rest..self.written.len();
        let passes = self.passes.iter().cloned().chain([rest]);
        passes.map(|pass| &self.written[pass])
    }

    /// The number of events written, without repeats.
    pub fn written(&self) -> usize {
        self.written.len()
    }

    /// Repeats the events written at `range`. Blocks that they leave live are not made again, and they must not free blocks
    /// made before them.
    pub fn repeat(&mut self, range: Range<usize>) {
        self.pass(self.rest..self.written.len());
        self.rest = self.written.len();
        let mut from = range.start;
        for place in self.left(range.clone()) {
            self.pass(from..place);
            from = place + 1;
        }
        self.pass(from..range.end);
    }

    /// The events of `range` that make or label a block which `range` does not free.
    fn left(&self, range: Range<usize>) -> Vec<usize> {
        let mut is_released = vec![false; self.blocks()];
        let mut places = Vec::new();
        for (event, place) in self.written[range.clone()].iter().zip(range).rev() {
            match event {
                Event::Free { block } => is_released[block.index()] = true,
                Event::Alloc { block, .. } | Event::Label { block, .. } if !is_released[block.index()] => {
                    places.push(place);
                }
                _ => {}
            }
        }
        places.reverse();
        places
    }

    fn pass(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.passes.push(range);
        }
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks as usize
    }

    /// Allocates `bytes` bytes.
    pub fn alloc(&mut self, bytes: u64, category: Category) -> Block {
        let block = Block(self.blocks);
        self.blocks += 1;
        self.written.push(Event::Alloc { block, bytes, category });
        block
    }

    /// Frees a block.
    pub fn free(&mut self, block: Block) {
        self.written.push(Event::Free { block });
    }

    /// Records the purpose of a block.
    pub fn label(&mut self, block: Block, category: Category) {
        self.written.push(Event::Label { block, category });
    }

    /// Begins a phase.
    pub fn phase(&mut self, phase: Phase) {
        self.written.push(Event::Phase(phase));
    }

    /// Begins the work of a module; `layer` is its block, if it is in one.
    pub fn module(&mut self, name: &'static str, layer: Option<u16>) {
        self.written.push(Event::Module(Module { name, layer }));
    }

    /// Begins the optimizer step `number`, from 1.
    pub fn step(&mut self, number: u32) {
        self.written.push(Event::Step(number));
    }

    /// Ends the optimizer step.
    pub fn step_end(&mut self) {
        self.written.push(Event::StepEnd);
    }

    /// Returns the allocator's cache to the device.
    pub fn empty_cache(&mut self) {
        self.written.push(Event::EmptyCache);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_repeated_range_leaves_is_made_once() {
        let mut trace = Trace::new();
        let weight = trace.alloc(1, Category::Parameter);
        let from = trace.written();
        let activation = trace.alloc(2, Category::Temporary);
        trace.label(activation, Category::Activation);
        let state = trace.alloc(3, Category::Temporary);
        trace.label(state, Category::OptimizerState);
        trace.free(activation);
        let range = from..trace.written();
        trace.repeat(range.clone());
        trace.step_end();
        trace.repeat(range);
        trace.free(weight);
        let lives = |block: Block| {
            let of = |event: &&Event| match event {
                Event::Alloc { block: of, .. } | Event::Free { block: of } | Event::Label { block: of, .. } => {
                    *of == block
                }
                _ => false,
            };
            trace.events().filter(of).count()
        };
        assert_eq!((lives(weight), lives(activation), lives(state)), (2, 9, 2));
        let ends: Vec<usize> = trace
            .events()
            .enumerate()
            .filter_map(|(at, event)| matches!(event, Event::StepEnd).then_some(at))
            .collect();
        assert_eq!(ends, [1 + 5 + 3], "after the first repeat, before the second");
        assert_eq!(trace.events().count(), 1 + 5 + 3 + 1 + 3 + 1);
        assert_eq!(trace.blocks(), 3);
    }
}
