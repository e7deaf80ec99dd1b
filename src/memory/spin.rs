//! A lock that never allocates and needs no initialisation, so that an allocator can use it.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Spins before the thread gives its core away: a holder needs some nanoseconds, unless it was preempted.
const SPINS: u32 = 64;

pub(super) struct Spin<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached in `with`, by one thread at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` alone. `f` must neither allocate nor panic: both would wait for this lock for ever.
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
        // SAFETY: the flag was ours to set, so no other reference to the value exists until it is cleared below.
        let result = f(unsafe { &mut *self.value.get() });
        self.locked.store(false, Ordering::Release);
        result
    }
}
