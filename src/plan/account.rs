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
    /// Live when an optimizer step ended, before its gradients are released: the mean over the steps.
    pub after_steps: Mean,
    /// Live at the end of the trace.
    pub at_end: u64,
}

/// The mean of what was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    pub(super) fn see(&mut self, bytes: u64) {
        self.sum += bytes;
        self.count += 1;
    }

    /// In whole bytes; 0 where nothing was seen.
    pub fn bytes(self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
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
                Event::StepEnd if is_measured => account.after_steps.see(total),
                Event::StepEnd => {}
                Event::EmptyCache => {}
            }
        }
        account.at_end = total;
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Category::{Activation, Gradient, Host, Parameter, Temporary};

    /// A load of 100 bytes and a peak of 300 on the way, then two steps: 100 + 50 live, then 100 + 40.
    fn trace() -> Trace {
        let mut trace = Trace::new();
        trace.phase(Phase::Load);
        let weight = trace.alloc(100, Parameter);
        let read = trace.alloc(200, Temporary);
        trace.free(read);
        trace.phase(Phase::Idle);
        for (number, bytes) in [(1, 50), (2, 40)] {
            trace.step(number);
            trace.phase(Phase::Forward);
            trace.module("mlp", Some(3));
            let saved = trace.alloc(bytes, Activation);
            trace.alloc(1 << 20, Host);
            trace.phase(Phase::Backward);
            trace.module("lm_head", None);
            trace.free(saved);
            let gradient = trace.alloc(10, Gradient);
            trace.step_end();
            trace.free(gradient);
        }
        trace.free(weight);
        trace
    }

    #[test]
    fn the_peak_is_the_first_highest_point_after_the_load() {
        let account = Account::of(&trace(), 1, 1);
        let peak = account.peak;
        assert_eq!((peak.bytes, peak.step, peak.phase), (150, 1, Some(Phase::Forward)));
        assert_eq!(
            peak.module.map(|module| module.to_string()),
            Some("layers.3.mlp".into())
        );
        assert_eq!((peak.by_category[Parameter], peak.by_category[Activation]), (100, 50));
        assert_eq!(peak.by_category[Host], 0, "host memory counts nowhere");
        let phases = [
            Phase::Load,
            Phase::Forward,
            Phase::Backward,
            Phase::Optimizer,
            Phase::Idle,
        ];
        assert_eq!(phases.map(|phase| account.in_phase[phase]), [300, 150, 150, 0, 100]);
        assert_eq!((account.after_steps.bytes(), account.at_end), (110, 0));
    }

    #[test]
    fn steps_before_the_measured_ones_are_left_out() {
        let account = Account::of(&trace(), 1, 2);
        assert_eq!((account.peak.bytes, account.peak.step), (140, 2));
        assert_eq!(account.peak.by_category[Activation], 40);
        let phases = [Phase::Load, Phase::Forward, Phase::Backward];
        assert_eq!(
            phases.map(|phase| account.in_phase[phase]),
            [300, 140, 140],
            "the load counts"
        );
    }

    #[test]
    fn sizes_are_rounded_up_to_the_granularity() {
        let account = Account::of(&trace(), 512, 1);
        assert_eq!((account.peak.bytes, account.after_steps.bytes()), (1024, 1024));
        assert_eq!(account.in_phase[Phase::Load], 1024);
    }

    #[test]
    fn a_label_given_at_the_peak_counts_there_and_one_given_later_does_not() {
        let mut trace = Trace::new();
        trace.step(1);
        trace.phase(Phase::Forward);
        let kept = trace.alloc(30, Temporary);
        trace.label(kept, Activation);
        let peak = Account::of(&trace, 1, 1).peak;
        assert_eq!((peak.by_category[Temporary], peak.by_category[Activation]), (0, 30));

        let other = trace.alloc(5, Temporary);
        trace.free(other);
        trace.label(kept, Gradient);
        let account = Account::of(&trace, 1, 1);
        let peak = account.peak;
        assert_eq!(
            [Temporary, Activation, Gradient].map(|category| peak.by_category[category]),
            [5, 30, 0]
        );
        assert_eq!(account.at_end, 30, "a label moves no byte");
    }
}
