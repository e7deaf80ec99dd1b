//! The allocator under the ledger: one of three, chosen before the process's first allocation and for its whole life.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;

use crate::options::AllocatorBackend;

/// The environment variable that names the backend of a process; the system's where it is unset or names none.
pub const BACKEND_VARIABLE: &str = "CELL_ALLOCATOR";
/// The same as the C library takes it.
const VARIABLE: &CStr = c"CELL_ALLOCATOR";

/// The backend's number, once it is chosen.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

impl AllocatorBackend {
    /// The backend of this process. The first call chooses; it allocates nothing, so that an allocator can make it.
    #[inline]
    pub fn current() -> Self {
        match CHOSEN.load(Ordering::Relaxed) {
            chosen if chosen == Self::System.code() => Self::System,
            chosen if chosen == Self::Retain.code() => Self::Retain,
            chosen if chosen == Self::Mimalloc.code() => Self::Mimalloc,
            _ => Self::choose(),
        }
    }

    /// The backend's number in [`CHOSEN`], where 0 is no choice.
    const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// Threads that came here at once would choose the same, and telling an allocator twice does no harm.
    #[cold]
    fn choose() -> Self {
        let chosen = Self::asked_for().unwrap_or(Self::System);
        match chosen {
            Self::System => {}
            Self::Retain => keep_pages(),
            Self::Mimalloc => never_purge(),
        }
        CHOSEN.store(chosen.code(), Ordering::Relaxed);
        chosen
    }

    /// What the environment names, where this build has it.
    fn asked_for() -> Option<Self> {
        // SAFETY: nobody changes the environment before the process's first allocation, which is when this is called.
        let name = unsafe {
            let value = libc::getenv(VARIABLE.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        }?;
        Self::named(name.to_str().ok()?).filter(|backend| backend.is_available())
    }
}

/// mallopt(3): no block is mapped on its own, the heap's top is never given back, and no thread has a heap of its own:
/// the ends of those are unmapped whatever the threshold says.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_pages() {
    let never = -1;
    for (option, value) in [
        (libc::M_MMAP_MAX, 0),
        (libc::M_TRIM_THRESHOLD, never),
        (libc::M_ARENA_MAX, 1),
    ] {
        // SAFETY: takes two numbers, and may be called at any time.
        unsafe { libc::mallopt(option, value) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep_pages() {}

/// Unless its own variable (MIMALLOC_PURGE_DELAY) says when to purge.
fn never_purge() {
    /// `mi_option_purge_delay` in mimalloc.h, which the bindings leave out.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    let never = -1;
    // SAFETY: takes two numbers; the caller says why no other thread is in mimalloc.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, never) };
}

/// What mimalloc holds of the system.
pub(super) fn mimalloc_reserved() -> u64 {
    let mut committed = 0;
    let skip = std::ptr::null_mut;
    // SAFETY: fills what is not null.
    unsafe {
        libmimalloc_sys::mi_process_info(
            skip(),
            skip(),
            skip(),
            skip(),
            skip(),
            &raw mut committed,
            skip(),
            skip(),
        );
    }
    committed as u64
}

/// The allocator that [`AllocatorBackend::current`] names.
pub struct BackendAllocator;

// SAFETY: hands every request as it came to one allocator, which never changes.
unsafe impl GlobalAlloc for BackendAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the allocator's.
        unsafe {
            match AllocatorBackend::current() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.alloc(layout),
                AllocatorBackend::Mimalloc => MiMalloc.alloc(layout),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the allocator's.
        unsafe {
            match AllocatorBackend::current() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.alloc_zeroed(layout),
                AllocatorBackend::Mimalloc => MiMalloc.alloc_zeroed(layout),
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the allocator's, and the pointer is its own.
        unsafe {
            match AllocatorBackend::current() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.realloc(pointer, layout, new_size),
                AllocatorBackend::Mimalloc => MiMalloc.realloc(pointer, layout, new_size),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the allocator's, and the pointer is its own.
        unsafe {
            match AllocatorBackend::current() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.dealloc(pointer, layout),
                AllocatorBackend::Mimalloc => MiMalloc.dealloc(pointer, layout),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_has_one_name() {
        assert_eq!(VARIABLE.to_str(), Ok(BACKEND_VARIABLE));
    }
}
