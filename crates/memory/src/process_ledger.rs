//! The ledger of this process.

use std::os::fd::{IntoRawFd, OwnedFd};

use trace::Phase;

use super::budget::{Budget, Tiers};
use super::dry_run;
use super::host_bytes::HostBytes;
use super::ledger::{Ledger, Live, Peaks};
use super::spin_lock::SpinLock;

/// The host's part of [`LEDGER`], which needs no lock.
pub(super) static HOST: HostBytes = HostBytes::new();

pub(super) static LEDGER: SpinLock<Ledger> = SpinLock::new(Ledger::new(&HOST));

/// Live bytes of this process, by category.
pub fn live() -> Live {
    LEDGER.with(|ledger| Live {
        by_category: ledger.live(),
    })
}

/// The peaks since the process began or [`reset_peaks`].
pub fn peaks() -> Peaks {
    LEDGER.with(|ledger| ledger.peaks())
}

/// Forgets earlier peaks: the present live bytes become the peak.
pub fn reset_peaks() {
    LEDGER.with(Ledger::reset_peaks);
}

/// The phase that the trainer is in.
pub fn phase() -> Phase {
    LEDGER.with(|ledger| ledger.phase())
}

/// Begins a phase, for all threads; in a dry run, of that run.
pub fn set_phase(phase: Phase) {
    if dry_run::is_dry_run() {
        return dry_run::mark(|trace| trace.phase(phase));
    }
    LEDGER.with(|ledger| ledger.set_phase(phase));
}

/// Sets the budgets of live tensor bytes and the descriptor that a refusal is reported on.
///
/// From now on, a request that exceeds the budget of its tier, or that the system refuses, ends the process from inside
/// the allocator: it writes one JSON line (the fields of `records::Oom`) to `oom` and exits with
/// [`OOM_EXIT_CODE`](super::OOM_EXIT_CODE).
pub fn arm(budgets: Tiers, oom: OwnedFd) {
    let armed = Budget::armed(budgets, oom.into_raw_fd());
    LEDGER.with(|ledger| ledger.budget = armed);
}
