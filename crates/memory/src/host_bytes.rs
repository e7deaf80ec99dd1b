//! The live bytes of the host. They have no budget and no peak of their own, so no charge waits for the ledger's lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::host_bound;

/// Threads beyond so many share their stripes.
const STRIPES: usize = 16;

/// Live bytes, counted in stripes: threads that allocate many small blocks at once, as tokenizers and plans do, would
/// wait for each other's cache lines. What one thread allocates may be freed by another, so only their sum means
/// something.
pub(super) struct HostBytes([Stripe; STRIPES]);

/// A count on a cache line of its own; CPUs fetch them in pairs.
#[repr(align(128))]
struct Stripe(AtomicU64);

thread_local! {
    // Constant and without a destructor, so that the allocator can read it at any time in a thread's life.
    /// The stripe of this thread.
    static STRIPE: Cell<usize> = const { Cell::new(STRIPES) };
}

fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut stripe = STRIPE.get();
    if stripe == STRIPES {
        stripe = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        STRIPE.set(stripe);
    }
    stripe
}

impl HostBytes {
    pub(super) const fn new() -> Self {
        Self([const { Stripe(AtomicU64::new(0)) }; STRIPES])
    }

    #[inline]
    pub(super) fn charge(&self, bytes: u64) {
        self.0[stripe()].0.fetch_add(bytes, Ordering::Relaxed);
        host_bound::count(bytes as i64);
    }

    #[inline]
    pub(super) fn release(&self, bytes: u64) {
        self.0[stripe()].0.fetch_sub(bytes, Ordering::Relaxed);
        host_bound::count(-(bytes as i64));
    }

    /// All of them. A block that another thread is charging or freeing meanwhile counts or does not.
    pub(super) fn live(&self) -> u64 {
        let stripes = self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed));
        let sum = stripes.fold(0, u64::wrapping_add);
        // A block may have been freed on one stripe after its own was read.
        (sum as i64).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_block_may_be_freed_by_another_thread() {
        let host = HostBytes::new();
        host.charge(1000);
        thread::scope(|scope| {
            for _ in 0..2 * STRIPES as u64 {
                scope.spawn(|| {
                    host.charge(3);
                    host.release(10);
                });
            }
        });
        assert_eq!(
            host.live(),
            1000 - 7 * 2 * STRIPES as u64,
            "stripes of less than nothing"
        );
    }
}
