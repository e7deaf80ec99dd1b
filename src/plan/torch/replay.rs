//! A step that is like one before is written down from that one's events, which takes a tenth of the time.
//!
//! What a step allocates and does not release, cuBLAS' workspaces and the optimizer's state, is made only once.

use std::ops::Range;

use super::tape::Tape;
use crate::plan::trace::{Block, Event};

impl Tape {
    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.memory().trace.events().len()
    }

    /// Writes the events of `range` once more, for new blocks.
    pub(super) fn repeat(&self, range: Range<usize>) {
        let memory = &mut *self.memory();
        memory.trace.reserve(range.len());
        let events = &memory.trace.events()[range.clone()];
        let mut blocks = events.iter().filter_map(|event| match event {
            Event::Alloc { block, .. } => Some(block.index()),
            _ => None,
        });
        let first = blocks.next().unwrap_or_default();
        let mut released = vec![false; blocks.count() + 1];
        let mut renewed: Vec<Option<Block>> = vec![None; released.len()];
        for event in events {
            if let Event::Free { block } = event {
                released[block.index() - first] = true;
            }
        }
        for place in range {
            match memory.trace.events()[place] {
                Event::Alloc { block, bytes, category } => {
                    if released[block.index() - first] {
                        renewed[block.index() - first] = Some(memory.alloc(bytes, category));
                    }
                }
                Event::Free { block } => {
                    if let Some(block) = renewed[block.index() - first] {
                        memory.trace.free(block);
                    }
                }
                Event::Label { block, category } => {
                    if let Some(block) = renewed[block.index() - first] {
                        memory.trace.label(block, category);
                    }
                }
                Event::Phase(phase) => memory.trace.phase(phase),
                Event::Module(module) => memory.trace.module(module.name, module.layer),
                Event::Step(step) => memory.trace.step(step),
                Event::StepEnd => memory.trace.step_end(),
                Event::EmptyCache => memory.trace.empty_cache(),
            }
        }
    }
}
