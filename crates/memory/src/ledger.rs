//! The account: live bytes by category, the peak with its split, and the peaks by phase.

use trace::recording::Kind;
use trace::{ByCategory, ByPhase, Category, Module, Phase};

use super::binding;
use super::budget::{Budget, Refusal};
use super::host_bytes::HostBytes;
use super::recorder::Recorder;

/// Live bytes at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Live heap bytes, those of the host included.
    pub by_category: ByCategory,
}

impl Live {
    /// Live tensor bytes of the device's tier.
    pub fn allocated(&self) -> u64 {
        let tensors = self.by_category.iter().filter(|(category, _)| category.is_tensor());
        tensors.map(|(_, bytes)| bytes).sum()
    }

    /// All live heap bytes.
    pub fn heap(&self) -> u64 {
        self.by_category.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The highest live tensor bytes since the process began or the peaks were reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peaks {
    /// Live tensor bytes at the peak.
    pub allocated: u64,
    /// Phase in which the peak was reached.
    pub phase: Phase,
    /// Module that was computed at the peak.
    pub module: Option<Module>,
    /// Live bytes at the instant of the peak, host included.
    pub by_category: ByCategory,
    /// Highest live tensor bytes within each phase; 0 if the phase was not entered.
    pub in_phase: ByPhase,
    /// Highest live bytes of the host's tier.
    pub offloaded: u64,
}

/// The account: every charge and release of tensors goes through here, under one lock.
pub(super) struct Ledger {
    /// Nothing of the host.
    live: ByCategory,
    host: &'static HostBytes,
    /// Sum of `live` over the tensor categories.
    allocated: u64,
    phase: Phase,
    peaks: Peaks,
    pub(super) budget: Budget,
    /// Keeps the timeline's events.
    pub(super) recorder: Recorder,
}

impl Ledger {
    pub(super) const fn new(host: &'static HostBytes) -> Self {
        Self {
            live: ByCategory::ZERO,
            host,
            allocated: 0,
            phase: Phase::Idle,
            peaks: Peaks {
                allocated: 0,
                phase: Phase::Idle,
                module: None,
                by_category: ByCategory::ZERO,
                in_phase: ByPhase::ZERO,
                offloaded: 0,
            },
            budget: Budget::UNARMED,
            recorder: Recorder::OFF,
        }
    }

    /// Adds `bytes` to a category, unless the budget does not cover them.
    pub(super) fn charge(&mut self, category: Category, bytes: u64) -> Result<(), Refusal> {
        if self.exceeded(category, bytes).is_some() {
            return Err(self.refusal(category, bytes));
        }
        if category == Category::Host {
            self.host.charge(bytes);
            return Ok(());
        }
        self.live[category] += bytes;
        if category.is_tensor() {
            self.allocated += bytes;
            self.note_peak();
        } else {
            self.peaks.offloaded = self.live[category].max(self.peaks.offloaded);
        }
        Ok(())
    }

    /// Subtracts `bytes` from a category.
    pub(super) fn release(&mut self, category: Category, bytes: u64) {
        if category == Category::Host {
            return self.host.release(bytes);
        }
        self.live[category] -= bytes;
        if category.is_tensor() {
            self.allocated -= bytes;
        }
    }

    /// Moves `bytes` from one category to another. A move into another tier needs its budget, as an allocation does.
    pub(super) fn relabel(&mut self, from: Category, to: Category, bytes: u64) -> Result<(), Refusal> {
        self.release(from, bytes);
        if let Err(refusal) = self.charge(to, bytes) {
            match from {
                Category::Host => self.host.charge(bytes),
                _ => self.live[from] += bytes,
            }
            if from.is_tensor() {
                self.allocated += bytes;
            }
            return Err(refusal);
        }
        // A buffer is labelled right after its allocation: if that made the peak, the peak's split gets the label, too.
        if self.allocated == self.peaks.allocated {
            self.peaks.by_category = self.live();
        }
        Ok(())
    }

    /// The refusal of a request of `bytes`: by the budget, or by the system if the budget covers the request.
    pub(super) fn refusal(&self, category: Category, bytes: u64) -> Refusal {
        Refusal {
            phase: self.phase,
            category,
            requested: bytes,
            allocated: self.in_tier(category),
            budget: self.exceeded(category, bytes),
        }
    }

    /// The budget of the category's tier, if it does not cover `bytes` more.
    fn exceeded(&self, category: Category, bytes: u64) -> Option<u64> {
        let limit = self.budget.limit(category)?;
        (bytes > limit.saturating_sub(self.in_tier(category))).then_some(limit)
    }

    /// Live bytes of the category's tier.
    fn in_tier(&self, category: Category) -> u64 {
        match category {
            Category::Offloaded => self.live[Category::Offloaded],
            _ => self.allocated,
        }
    }

    /// Live bytes by category, those of the host included.
    pub(super) fn live(&self) -> ByCategory {
        let mut live = self.live;
        live[Category::Host] = self.host.live();
        live
    }

    pub(super) fn peaks(&self) -> Peaks {
        self.peaks
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.recorder.push(Kind::Phase, Category::Host, 0, phase as u64);
        let in_phase = &mut self.peaks.in_phase[phase];
        *in_phase = self.allocated.max(*in_phase);
    }

    pub(super) fn reset_peaks(&mut self) {
        self.peaks = Peaks {
            allocated: self.allocated,
            phase: self.phase,
            module: binding::current(),
            by_category: self.live(),
            in_phase: ByPhase::ZERO,
            offloaded: self.live[Category::Offloaded],
        };
        self.peaks.in_phase[self.phase] = self.allocated;
    }

    fn note_peak(&mut self) {
        let in_phase = &mut self.peaks.in_phase[self.phase];
        *in_phase = self.allocated.max(*in_phase);
        if self.allocated > self.peaks.allocated {
            self.peaks.allocated = self.allocated;
            self.peaks.phase = self.phase;
            self.peaks.module = binding::current();
            self.peaks.by_category = self.live();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Category::{Activation, Host, Offloaded, Parameter, Temporary};
    use super::*;
    use crate::budget::Tiers;

    fn ledger(charges: &[(Category, u64)]) -> Ledger {
        let mut ledger = Ledger::new(Box::leak(Box::new(HostBytes::new())));
        for &(category, bytes) in charges {
            ledger.charge(category, bytes).unwrap();
        }
        ledger
    }

    #[test]
    fn peak_has_the_categories_of_its_instant() {
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
    fn host_does_not_count_as_allocated() {
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
    fn each_phase_has_its_own_peak() {
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
    fn each_tier_has_its_peak_and_its_budget() {
        let mut ledger = ledger(&[(Parameter, 90), (Offloaded, 50)]);
        let (device, host) = (Some(100), Some(60));
        ledger.budget = Budget::armed(Tiers { device, host }, 2);
        assert_eq!((ledger.allocated, ledger.peaks.offloaded), (90, 50));
        ledger.charge(Offloaded, 10).unwrap();
        let refusal = ledger.charge(Offloaded, 1).unwrap_err();
        assert_eq!((refusal.allocated, refusal.budget), (60, Some(60)));
        assert_eq!(ledger.charge(Temporary, 11).unwrap_err().budget, Some(100));
        ledger.release(Offloaded, 60);
        ledger.charge(Temporary, 10).unwrap();
        assert_eq!((ledger.peaks.allocated, ledger.peaks.offloaded), (100, 60));
        ledger.reset_peaks();
        assert_eq!(ledger.peaks.offloaded, 0);
    }

    #[test]
    fn budget_covers_tensors_to_the_byte() {
        let mut ledger = ledger(&[(Parameter, 90)]);
        ledger.budget = Budget::armed(
            Tiers {
                device: Some(100),
                host: None,
            },
            2,
        );
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
        assert_eq!(ledger.allocated, 100, "a refused request is not charged");
        assert!(ledger.relabel(Host, Activation, 8).is_err());
        assert_eq!(ledger.live()[Host], 1000);
        assert_eq!(
            ledger.refusal(Host, 1 << 40).budget,
            None,
            "the system refused, not the budget"
        );
    }
}
