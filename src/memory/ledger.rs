//! The account itself: live bytes by category, the peak with its split, and the peaks by phase.

use super::budget::{Budget, Refusal};
use super::category::{ByCategory, ByPhase, Category, Phase};
use super::event::Kind;
use super::recorder::Recorder;
use super::spin::Spin;

/// The account of this process.
pub(super) static LEDGER: Spin<Ledger> = Spin::new(Ledger::new());

/// Live bytes at this instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    pub by_category: ByCategory,
}

impl Live {
    /// Tensor bytes: all categories but host.
    pub fn allocated(&self) -> u64 {
        self.heap() - self.by_category[Category::Host]
    }

    /// All live heap bytes.
    pub fn heap(&self) -> u64 {
        self.by_category.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The highest live tensor bytes since the process began or the peaks were reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peaks {
    pub allocated: u64,
    /// Phase in which it was reached.
    pub phase: Phase,
    /// Live bytes at the instant of the peak, host included.
    pub by_category: ByCategory,
    /// Highest tensor bytes within each phase; 0 for one that was not entered.
    pub in_phase: ByPhase,
}

/// Live bytes of this process, by category.
pub fn live() -> Live {
    LEDGER.with(|ledger| Live {
        by_category: ledger.live,
    })
}

/// The peaks so far.
pub fn peaks() -> Peaks {
    LEDGER.with(|ledger| ledger.peaks)
}

/// Forgets earlier peaks: what is live now is the highest so far.
pub fn reset_peaks() {
    LEDGER.with(Ledger::reset_peaks);
}

/// What the trainer does.
pub fn phase() -> Phase {
    LEDGER.with(|ledger| ledger.phase)
}

/// Says what the trainer does from now on, for all threads.
pub fn set_phase(phase: Phase) {
    LEDGER.with(|ledger| ledger.set_phase(phase));
}

pub(super) struct Ledger {
    live: ByCategory,
    /// Sum of `live` over the tensor categories.
    allocated: u64,
    phase: Phase,
    peaks: Peaks,
    pub(super) budget: Budget,
    /// Where the timeline's events go.
    pub(super) recorder: Recorder,
}

impl Ledger {
    pub(super) const fn new() -> Self {
        Self {
            live: ByCategory::ZERO,
            allocated: 0,
            phase: Phase::Idle,
            peaks: Peaks {
                allocated: 0,
                phase: Phase::Idle,
                by_category: ByCategory::ZERO,
                in_phase: ByPhase::ZERO,
            },
            budget: Budget::UNARMED,
            recorder: Recorder::OFF,
        }
    }

    /// Enters `bytes` more; refuses what the budget does not cover.
    pub(super) fn charge(&mut self, category: Category, bytes: u64) -> Result<(), Refusal> {
        if category.is_tensor() {
            if self
                .budget
                .limit()
                .is_some_and(|limit| bytes > limit.saturating_sub(self.allocated))
            {
                return Err(self.refusal(category, bytes));
            }
            self.allocated += bytes;
        }
        self.live[category] += bytes;
        if category.is_tensor() {
            self.note_peak();
        }
        Ok(())
    }

    pub(super) fn release(&mut self, category: Category, bytes: u64) {
        self.live[category] -= bytes;
        if category.is_tensor() {
            self.allocated -= bytes;
        }
    }

    /// Moves `bytes` from one category to another; a move from host into a tensor category is a request like any other.
    pub(super) fn relabel(&mut self, from: Category, to: Category, bytes: u64) -> Result<(), Refusal> {
        self.release(from, bytes);
        if let Err(refusal) = self.charge(to, bytes) {
            self.live[from] += bytes;
            return Err(refusal);
        }
        // A buffer is labelled right after it was allocated: where that made the peak, the peak is told with the label.
        if self.allocated == self.peaks.allocated {
            self.peaks.by_category = self.live;
        }
        Ok(())
    }

    /// A request of `bytes` that is not granted, by the budget or, where that would cover it, by the system.
    pub(super) fn refusal(&self, category: Category, bytes: u64) -> Refusal {
        let over = |limit: &u64| category.is_tensor() && bytes > limit.saturating_sub(self.allocated);
        Refusal {
            phase: self.phase,
            category,
            requested: bytes,
            allocated: self.allocated,
            budget: self.budget.limit().filter(over),
        }
    }

    pub(super) fn live(&self) -> ByCategory {
        self.live
    }

    fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.recorder.push(Kind::Phase, Category::Host, 0, phase as u64);
        let in_phase = &mut self.peaks.in_phase[phase];
        *in_phase = self.allocated.max(*in_phase);
    }

    fn reset_peaks(&mut self) {
        self.peaks = Peaks {
            allocated: self.allocated,
            phase: self.phase,
            by_category: self.live,
            in_phase: ByPhase::ZERO,
        };
        self.peaks.in_phase[self.phase] = self.allocated;
    }

    fn note_peak(&mut self) {
        let in_phase = &mut self.peaks.in_phase[self.phase];
        *in_phase = self.allocated.max(*in_phase);
        if self.allocated > self.peaks.allocated {
            self.peaks.allocated = self.allocated;
            self.peaks.phase = self.phase;
            self.peaks.by_category = self.live;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Category::{Activation, Host, Parameter, Temporary};
    use super::*;

    fn ledger(charges: &[(Category, u64)]) -> Ledger {
        let mut ledger = Ledger::new();
        for &(category, bytes) in charges {
            ledger.charge(category, bytes).unwrap();
        }
        ledger
    }

    #[test]
    fn peak_is_told_by_category_at_its_instant() {
        let mut ledger = ledger(&[(Parameter, 100), (Host, 7), (Temporary, 50)]);
        ledger.release(Temporary, 50);
        ledger.charge(Activation, 40).unwrap();
        assert_eq!(ledger.peaks.allocated, 150);
        assert_eq!(ledger.peaks.by_category[Temporary], 50);
        assert_eq!(ledger.peaks.by_category[Activation], 0);
        assert_eq!(ledger.peaks.by_category[Host], 7);
        assert_eq!(ledger.allocated, 140);
    }

    #[test]
    fn host_is_no_part_of_allocated() {
        let ledger = ledger(&[(Host, 1000), (Parameter, 1)]);
        assert_eq!((ledger.allocated, ledger.peaks.allocated), (1, 1));
    }

    #[test]
    fn relabelling_out_of_host_can_make_the_peak() {
        let mut ledger = ledger(&[(Host, 60), (Parameter, 10)]);
        ledger.relabel(Host, Parameter, 60).unwrap();
        assert_eq!(ledger.peaks.allocated, 70);
        ledger.relabel(Parameter, Host, 60).unwrap();
        ledger.charge(Temporary, 20).unwrap();
        assert_eq!((ledger.allocated, ledger.peaks.allocated), (30, 70));
        assert_eq!(ledger.peaks.by_category[Parameter], 70);
    }

    #[test]
    fn a_label_given_at_the_peak_is_the_peaks_label() {
        let mut ledger = ledger(&[(Parameter, 10), (Temporary, 5)]);
        ledger.relabel(Temporary, Activation, 5).unwrap();
        assert_eq!(ledger.peaks.allocated, 15);
        assert_eq!(
            (
                ledger.peaks.by_category[Temporary],
                ledger.peaks.by_category[Activation]
            ),
            (0, 5)
        );
    }

    #[test]
    fn phases_have_peaks_of_their_own() {
        let mut ledger = ledger(&[(Parameter, 10)]);
        ledger.set_phase(Phase::Forward);
        ledger.charge(Activation, 30).unwrap();
        ledger.set_phase(Phase::Backward);
        ledger.release(Activation, 30);
        ledger.charge(Temporary, 5).unwrap();
        ledger.set_phase(Phase::Optimizer);
        let in_phase = ledger.peaks.in_phase;
        assert_eq!(
            Phase::ALL.map(|phase| in_phase[phase]),
            [0, 40, 40, 15, 10],
            "load, forward, backward, optimizer, idle"
        );
        assert_eq!(ledger.peaks.phase, Phase::Forward);
        ledger.reset_peaks();
        assert_eq!(Phase::ALL.map(|phase| ledger.peaks.in_phase[phase]), [0, 0, 0, 15, 0]);
        assert_eq!((ledger.peaks.allocated, ledger.peaks.phase), (15, Phase::Optimizer));
    }

    #[test]
    fn budget_covers_tensors_to_the_byte() {
        let mut ledger = ledger(&[(Parameter, 90)]);
        ledger.budget = Budget::armed(Some(100), 2);
        ledger.charge(Host, 1000).unwrap();
        ledger.charge(Temporary, 10).unwrap();
        ledger.set_phase(Phase::Backward);
        let refusal = ledger.charge(Activation, 1).unwrap_err();
        assert_eq!(
            refusal,
            Refusal {
                phase: Phase::Backward,
                category: Activation,
                requested: 1,
                allocated: 100,
                budget: Some(100),
            }
        );
        assert_eq!(ledger.allocated, 100, "a refused request is not entered");
        assert!(ledger.relabel(Host, Activation, 8).is_err());
        assert_eq!(ledger.live[Host], 1000);
        assert_eq!(
            ledger.refusal(Host, 1 << 40).budget,
            None,
            "the system refused, not the budget"
        );
    }
}
