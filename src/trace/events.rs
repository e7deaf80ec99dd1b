//! What training allocates and releases, in order: the stacks write it, the accounts and the allocator read it.

use std::ops::Range;

use crate::memory::{Category, Phase};

/// Events from the load on. Nothing that is there is asked for again or released twice, and what is still there at the end
/// is alive.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Each event once, however often it happens.
    written: Vec<Event>,
    /// What happens, in order, as ranges of what is written.
    passes: Vec<Range<usize>>,
    /// From where on what is written is in no pass yet: it comes after them.
    rest: usize,
    blocks: u32,
}

/// A piece of memory; numbered from 0 in the order in which they are asked for. What happens once more has the same numbers
/// again.
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
            written: Vec::with_capacity(events),
            ..Self::default()
        }
    }

    /// What happens, in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.passes().flatten()
    }

    /// The same, in a few long pieces: for those whose loop should be short.
    pub fn passes(&self) -> impl Iterator<Item = &[Event]> {
        let rest = self.rest..self.written.len();
        let passes = self.passes.iter().cloned().chain([rest]);
        passes.map(|pass| &self.written[pass])
    }

    /// How many events are written down.
    pub fn written(&self) -> usize {
        self.written.len()
    }

    /// Lets the events that are written at `range` happen once more, now. What they leave is there already, and is not made
    /// again; they may release nothing that was made before them.
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

    /// Where in `range` something is made that is not released in it.
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

    /// How many numbers blocks have.
    pub fn blocks(&self) -> usize {
        self.blocks as usize
    }

    pub fn alloc(&mut self, bytes: u64, category: Category) -> Block {
        let block = Block(self.blocks);
        self.blocks += 1;
        self.written.push(Event::Alloc { block, bytes, category });
        block
    }

    pub fn free(&mut self, block: Block) {
        self.written.push(Event::Free { block });
    }

    pub fn label(&mut self, block: Block, category: Category) {
        self.written.push(Event::Label { block, category });
    }

    pub fn phase(&mut self, phase: Phase) {
        self.written.push(Event::Phase(phase));
    }

    pub fn module(&mut self, name: &'static str, layer: Option<u16>) {
        self.written.push(Event::Module(Module { name, layer }));
    }

    pub fn step(&mut self, number: u32) {
        self.written.push(Event::Step(number));
    }

    pub fn step_end(&mut self) {
        self.written.push(Event::StepEnd);
    }

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
