//! How many bytes a trace keeps alive: its peaks, when they are and what for.

use super::trace::{Event, Module, Trace};
use crate::memory::{ByCategory, ByPhase, Category, Phase};

/// Live bytes over a trace; of tensors, so host memory counts nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The highest point after the load.
    pub peak: Peak,
    /// The highest point in each phase.
    pub in_phase: ByPhase,
    /// Live when the last optimizer step ended, before its gradients are released.
    pub after_step: u64,
    /// Live at the end of the trace.
    pub at_end: u64,
}

/// The instant at which most is alive; the first of equal ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    pub by_category: ByCategory,
    pub phase: Option<Phase>,
    pub module: Option<Module>,
    /// Number of the optimizer step, from 1.
    pub step: u32,
}

impl Account {
    /// Replays `trace`. Sizes count in multiples of `granularity`: 1 for what was asked for, 512 for PyTorch's allocator on
    /// a GPU. Steps before `from_step`, which counts from 1, are not looked at, but for what they leave.
    pub fn of(trace: &Trace, granularity: u64, from_step: u32) -> Self {
        let mut account = Self::default();
        let mut blocks = vec![(0u64, Category::Host); trace.blocks()];
        let mut live = ByCategory::default();
        let mut total = 0;
        let mut now = Peak {
            phase: Some(Phase::Idle),
            ..Peak::default()
        };
        let mut phase = Phase::Idle;
        let mut is_measured = from_step <= 1;
        for event in trace.events() {
            match *event {
                Event::Alloc { block, bytes, category } => {
                    let bytes = bytes.next_multiple_of(granularity);
                    blocks[block.index()] = (bytes, category);
                    if !category.is_tensor() {
                        continue;
                    }
                    live[category] += bytes;
                    total += bytes;
                    if is_measured || phase == Phase::Load {
                        account.in_phase[phase] = account.in_phase[phase].max(total);
                    }
                    if is_measured && total > account.peak.bytes && phase != Phase::Load {
                        account.peak = Peak {
                            bytes: total,
                            by_category: live,
                            ..now
                        };
                    }
                }
                Event::Free { block } => {
                    let (bytes, category) = blocks[block.index()];
                    if category.is_tensor() {
                        live[category] -= bytes;
                        total -= bytes;
                    }
                }
                Event::Label { block, category } => {
                    let (bytes, label) = &mut blocks[block.index()];
                    let (bytes, before) = (*bytes, std::mem::replace(label, category));
                    live[before] -= bytes;
                    live[category] += bytes;
                    // What made the peak is labelled right after.
                    if total == account.peak.bytes && is_measured {
                        account.peak.by_category = live;
                    }
                }
                Event::Phase(next) => {
                    phase = next;
                    now.phase = Some(next);
                    if is_measured {
                        account.in_phase[phase] = account.in_phase[phase].max(total);
                    }
                }
                Event::Module(module) => now.module = Some(module),
                Event::Step(step) => {
                    now.step = step;
                    is_measured = step >= from_step;
                }
                Event::StepEnd => account.after_step = total,
                Event::EmptyCache => {}
            }
        }
        account.at_end = total;
        account
    }
}
