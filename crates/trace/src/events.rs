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
    sections: Vec<Order>,
    /// The first event that is in no section yet; it and those after it follow the sections.
    rest: usize,
    blocks: u32,
}

/// The events of a section, as ranges of all that are written.
#[derive(Debug, Clone)]
struct Order {
    passes: Vec<Range<usize>>,
    /// The range that is repeated.
    repeats: Option<Range<usize>>,
    occurrence: Occurrence,
}

/// Consecutive events: those of one repeat, or all between two repeats.
#[derive(Debug, Clone)]
pub struct Section<'t> {
    /// The events in order, as a few long slices.
    pub passes: Vec<&'t [Event]>,
    /// The relation of its events to those before.
    pub occurrence: Occurrence,
}

/// The relation of a section's events to those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurrence {
    /// They happen once here.
    Once,
    /// They happened before, and leave the blocks that they find.
    Repeat,
    /// They happen as in the last repeat. In between no block is touched, but the allocator's cache may be returned.
    SameRepeat,
}

/// A piece of memory, numbered from 0 in the order of allocation. Repeated events repeat the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block(u32);

impl Block {
    /// The block's number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The block's number, as a place in a list.
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
    /// Another stream uses a block (`Tensor.record_stream`): once it is freed, the allocator keeps it until that stream is
    /// done.
    RecordStream {
        /// The block.
        block: Block,
    },
    /// The other streams are done with all that was freed up to this block.
    Await {
        /// The block.
        block: Block,
    },
    /// The other streams are done with all that was freed.
    Synchronize,
    /// The following blocks are allocated for this stream, the first of which is that of computation; an allocator keeps
    /// those of each apart.
    Stream(u8),
}

impl Event {
    /// True if it may stand between two steps.
    fn is_between_steps(&self) -> bool {
        matches!(self, Self::Step(_) | Self::StepEnd | Self::EmptyCache)
    }
}

impl Trace {
    /// An empty trace.
    pub const fn new() -> Self {
        Self {
            written: Vec::new(),
            sections: Vec::new(),
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
        self.sections().flat_map(|section| section.passes).flatten()
    }

    /// All events in order, cut before and after each repeat: faster to walk than [`Trace::events`].
    pub fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        let rest = Section {
            passes: vec![&self.written[self.rest..]],
            occurrence: Occurrence::Once,
        };
        let sections = self.sections.iter().map(|order| Section {
            passes: order.passes.iter().map(|pass| &self.written[pass.clone()]).collect(),
            occurrence: order.occurrence,
        });
        sections.chain([rest])
    }

    /// The number of events written, without repeats.
    #[inline]
    pub fn written(&self) -> usize {
        self.written.len()
    }

    /// Repeats the events written at `range`. Blocks that they leave live are not made again, and they must not free
    /// blocks made before them.
    pub fn repeat(&mut self, range: Range<usize>) {
        let between = self.rest..self.written.len();
        let last = self.sections.last().and_then(|order| order.repeats.as_ref());
        let is_same = last == Some(&range) && self.written[between.clone()].iter().all(Event::is_between_steps);
        let left = self.left(range.clone());
        let begins = std::iter::once(range.start).chain(left.iter().map(|place| place + 1));
        let ends = left.iter().copied().chain([range.end]);
        let passes = begins.zip(ends).map(|(begin, end)| begin..end);
        let repeat = Order {
            passes: passes.filter(|pass| !pass.is_empty()).collect(),
            repeats: Some(range),
            occurrence: if is_same {
                Occurrence::SameRepeat
            } else {
                Occurrence::Repeat
            },
        };
        self.rest = between.end;
        let before = Order {
            passes: vec![between],
            repeats: None,
            occurrence: Occurrence::Once,
        };
        self.sections.extend([before, repeat]);
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

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks as usize
    }

    /// Allocates `bytes` bytes.
    #[inline]
    pub fn alloc(&mut self, bytes: u64, category: Category) -> Block {
        let block = Block(self.blocks);
        self.blocks += 1;
        self.written.push(Event::Alloc { block, bytes, category });
        block
    }

    /// Frees a block.
    #[inline]
    pub fn free(&mut self, block: Block) {
        self.written.push(Event::Free { block });
    }

    /// Records the purpose of a block.
    #[inline]
    pub fn label(&mut self, block: Block, category: Category) {
        self.written.push(Event::Label { block, category });
    }

    /// Begins a phase.
    pub fn phase(&mut self, phase: Phase) {
        self.written.push(Event::Phase(phase));
    }

    /// Begins the work of a module; `layer` is its block, if it is in one.
    #[inline]
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

    /// Has another stream use a block: once it is freed, it waits for [`Self::wait_for`] or [`Self::synchronize`].
    pub fn record_stream(&mut self, block: Block) {
        self.written.push(Event::RecordStream { block });
    }

    /// Waits until the other streams are done with all that was freed up to this block.
    pub fn wait_for(&mut self, block: Block) {
        self.written.push(Event::Await { block });
    }

    /// The following blocks are allocated for this stream.
    pub fn stream(&mut self, stream: u8) {
        self.written.push(Event::Stream(stream));
    }

    /// Waits for all streams.
    pub fn synchronize(&mut self) {
        self.written.push(Event::Synchronize);
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

    #[test]
    fn repeats_are_the_same_if_no_block_changes_between_them() {
        use Occurrence::{Once, Repeat, SameRepeat};
        let mut trace = Trace::new();
        let of_step = |trace: &mut Trace| {
            let from = trace.written();
            let activation = trace.alloc(2, Category::Activation);
            trace.free(activation);
            from..trace.written()
        };
        let step = of_step(&mut trace);
        trace.repeat(step.clone());
        trace.step(3);
        trace.repeat(step.clone());
        trace.alloc(1, Category::OptimizerState);
        trace.repeat(step);
        let other = of_step(&mut trace);
        trace.repeat(other);
        let occurrences: Vec<_> = trace.sections().map(|section| section.occurrence).collect();
        let between = [Once, Repeat, Once, SameRepeat, Once, Repeat, Once, Repeat, Once];
        assert_eq!(occurrences, between);
    }
}
