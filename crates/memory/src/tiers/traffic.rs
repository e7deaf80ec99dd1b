//! The traffic between the tiers in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static COPIED: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);

/// What was copied between the tiers since [`reset_traffic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes, in both directions.
    pub copied_bytes: u64,
    /// Time in which the training thread waited for copies on the other thread.
    pub waited: Duration,
}

/// The traffic so far.
pub fn traffic() -> Traffic {
    Traffic {
        copied_bytes: COPIED.load(Ordering::Relaxed),
        waited: Duration::from_nanos(WAITED.load(Ordering::Relaxed)),
    }
}

/// Forgets the traffic so far.
pub fn reset_traffic() {
    COPIED.store(0, Ordering::Relaxed);
    WAITED.store(0, Ordering::Relaxed);
}

/// Counts bytes that are copied from one tier to the other.
pub fn count_copied(bytes: usize) {
    if !crate::is_dry_run() {
        COPIED.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

pub(super) fn count_waited(time: Duration) {
    WAITED.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}
