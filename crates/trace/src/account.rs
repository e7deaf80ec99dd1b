//! Live bytes over a trace: the peaks, their instants and their purposes.

use std::ops::{AddAssign, Sub};

use super::{ByCategory, ByPhase, Category, Event, LiveTensors, Module, Occurrence, Phase, Trace};

/// Live tensor bytes over a trace; host memory does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The highest point after the load.
    pub peak: Peak,
    /// The highest point in each phase.
    pub in_phase: ByPhase,
    /// Live at the end of an optimizer step, before its gradients are released: the mean over the steps.
    pub after_steps: Mean,
    /// Live at the end of the trace.
    pub at_end: u64,
    /// The most bytes in the host's tier, after the load or at its end.
    pub host_peak: u64,
}

/// A mean of byte counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    /// Adds one value.
    pub fn add(&mut self, bytes: u64) {
        self.sum += bytes;
        self.count += 1;
    }

    /// The mean in whole bytes; 0 without a count.
    pub fn bytes(self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

impl AddAssign for Mean {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

impl Sub for Mean {
    type Output = Self;

    /// The mean of what was added since it was `before`.
    fn sub(self, before: Self) -> Self {
        Self {
            sum: self.sum - before.sum,
            count: self.count - before.count,
        }
    }
}

/// The instant with the most live bytes; the first of equal ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// Live bytes.
    pub bytes: u64,
    /// Requested bytes by category; what rounding adds is in none.
    pub by_category: ByCategory,
    /// Requested bytes of activations and temporaries of the head and of the loss.
    pub of_loss: u64,
    /// The phase; `None` before the first one.
    pub phase: Option<Phase>,
    /// The module at work; `None` before the first one.
    pub module: Option<Module>,
    /// Number of the optimizer step, from 1.
    pub step: u32,
}

impl Account {
    /// Replays `trace`. Sizes are rounded up to `granularity`, a power of two: 1 for requested bytes, 512 for PyTorch's
    /// allocator on a GPU. Peaks before the step `from_step`, from 1, do not count.
    pub fn of(trace: &Trace, granularity: u64, from_step: u32) -> Self {
        let mut replay = Replay::new(trace.blocks(), granularity, from_step);
        let mut last_repeat = None;
        for section in trace.sections() {
            match (section.occurrence, last_repeat) {
                // It would find nothing new.
                (Occurrence::SameRepeat, Some((true, steps))) => replay.account.after_steps += steps,
                (occurrence, _) => {
                    let (was_measured, before) = (replay.is_measured, replay.account.after_steps);
                    section
                        .passes
                        .into_iter()
                        .flatten()
                        .for_each(|event| replay.apply(event));
                    if occurrence != Occurrence::Once {
                        last_repeat = Some((was_measured, replay.account.after_steps - before));
                    }
                }
            }
        }
        replay.leave_peak();
        Self {
            at_end: replay.total,
            ..replay.account
        }
    }
}

/// The live blocks during a replay.
struct Replay {
    account: Account,
    granularity: u64,
    from_step: u32,
    is_measured: bool,
    /// True from a new peak, or a label at its height, to the next release.
    is_at_peak: bool,
    live: LiveTensors,
    /// Live bytes with rounding.
    total: u64,
    phase: Phase,
    module: Option<Module>,
    step: u32,
}

impl Replay {
    fn new(blocks: usize, granularity: u64, from_step: u32) -> Self {
        Self {
            account: Account::default(),
            granularity,
            from_step,
            is_measured: from_step <= 1,
            is_at_peak: false,
            live: LiveTensors::new(blocks),
            total: 0,
            phase: Phase::Idle,
            module: None,
            step: 0,
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Alloc { block, bytes, category } => {
                let bytes = self.live.alloc(block, bytes, category);
                if bytes > 0 {
                    self.total += self.rounded(bytes);
                    self.update_peak();
                } else if category == Category::Offloaded && self.is_measured {
                    self.account.host_peak = self.live.offloaded().max(self.account.host_peak);
                }
            }
            Event::Free { block } => {
                self.leave_peak();
                let bytes = self.live.free(block);
                self.total -= self.rounded(bytes);
            }
            Event::Label { block, category } => {
                self.live.label(block, category);
                // The block that made the peak gets its label right after.
                self.is_at_peak |= self.total == self.account.peak.bytes && self.is_measured;
            }
            Event::Phase(phase) => {
                self.phase = phase;
                if self.is_measured {
                    let highest = &mut self.account.in_phase[phase];
                    *highest = self.total.max(*highest);
                }
            }
            Event::Module(module) => {
                self.live.enter(module);
                self.module = Some(module);
            }
            Event::Step(step) => {
                self.step = step;
                self.is_measured = step >= self.from_step;
                if self.is_measured {
                    self.account.host_peak = self.live.offloaded().max(self.account.host_peak);
                }
            }
            Event::StepEnd if self.is_measured => self.account.after_steps.add(self.total),
            Event::StepEnd
            | Event::EmptyCache
            | Event::RecordStream { .. }
            | Event::Await { .. }
            | Event::Synchronize
            | Event::Stream(_) => {}
        }
    }

    /// As `next_multiple_of`, which divides.
    fn rounded(&self, bytes: u64) -> u64 {
        (bytes + self.granularity - 1) & !(self.granularity - 1)
    }

    /// Records the live bytes if they are more than before.
    fn update_peak(&mut self) {
        let is_load = self.phase == Phase::Load;
        if !self.is_measured && !is_load {
            return;
        }
        let highest = &mut self.account.in_phase[self.phase];
        *highest = self.total.max(*highest);
        if self.is_measured && !is_load && self.total > self.account.peak.bytes {
            self.is_at_peak = true;
            let peak = &mut self.account.peak;
            peak.bytes = self.total;
            (peak.phase, peak.module, peak.step) = (Some(self.phase), self.module, self.step);
        }
    }

    /// Records the categories of the peak. While memory grows, every allocation is a peak, so this waits for its end.
    fn leave_peak(&mut self) {
        if self.is_at_peak {
            self.is_at_peak = false;
            self.account.peak.by_category = self.live.by_category();
            self.account.peak.of_loss = self.live.of_loss();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Category::{Activation, Gradient, Host, Parameter, Temporary};

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
        let by_category = account.peak.by_category;
        assert_eq!(
            (by_category[Parameter], by_category[Activation]),
            (100, 50),
            "as requested"
        );
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
