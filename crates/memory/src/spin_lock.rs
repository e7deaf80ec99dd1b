//! A lock that never allocates and needs no initialisation, so an allocator can use it.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Spins before a thread yields its core. A holder needs some nanoseconds, unless it was preempted.
const SPINS: u32 = 64;

/// A value that one thread at a time can reach.
pub(super) struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only `with` reaches the value, and only one thread at a time runs there.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` with the lock held. `f` must neither allocate nor panic: both would wait for this lock forever.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let mut spins = 0;
        while self
            .locked
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spins += 1;
            if spins % SPINS == 0 {
                std::thread::yield_now();
            } else {
                spin_loop();
            }
        }
        // SAFETY: this thread set the flag, so no other reference to the value exists until the flag is cleared below.
        let result = f(unsafe { &mut *self.value.get() });
        self.locked.store(false, Ordering::Release);
        result
    }
}
