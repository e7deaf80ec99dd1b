//! The allocator under the ledger: one of three. The process's first allocation chooses it for the process's whole
//! life.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;
use options::AllocatorBackend;

/// The environment variable that names the backend of a process. If it is unset or names no backend, the system's
/// serves.
pub const BACKEND_VARIABLE: &str = "CELL_ALLOCATOR";
/// The name of [`BACKEND_VARIABLE`] for the C library.
const VARIABLE: &CStr = c"CELL_ALLOCATOR";

/// The number of the chosen backend; 0 before the choice.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The backend of this process. The first call chooses it. It allocates nothing, so an allocator can make it.
#[inline]
pub fn current_backend() -> AllocatorBackend {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    let backend = AllocatorBackend::ALL
        .into_iter()
        .find(|backend| code(*backend) == chosen);
    backend.unwrap_or_else(choose)
}

/// The backend's number in [`CHOSEN`].
const fn code(backend: AllocatorBackend) -> u8 {
    backend as u8 + 1
}

/// Chooses and configures the backend. Concurrent threads make the same choice, and a second configuration does no
/// harm.
#[cold]
fn choose() -> AllocatorBackend {
    let chosen = requested().unwrap_or(AllocatorBackend::System);
    match chosen {
        AllocatorBackend::System => {}
        AllocatorBackend::Retain => {
            keep_freed_pages();
            share_heap();
        }
        AllocatorBackend::Mimalloc => never_purge(),
    }
    CHOSEN.store(code(chosen), Ordering::Relaxed);
    chosen
}

/// The backend that the environment names, if this build has it.
fn requested() -> Option<AllocatorBackend> {
    // SAFETY: the process's first allocation calls this, and the environment is not changed before that.
    let name = unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }?;
    AllocatorBackend::named(name.to_str().ok()?).filter(|backend| backend.is_available())
}

/// Has the system's allocator keep most freed pages, see mallopt(3): no block is mapped separately, and the heap's top
/// is never trimmed. For a process that takes and frees the same large blocks many times.
pub fn keep_freed_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    set_options(&[(libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, -1)]);
}

/// Has all threads share one heap: glibc unmaps the ends of other heaps regardless of the threshold.
fn share_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    set_options(&[(libc::M_ARENA_MAX, 1)]);
}

/// Sets options of the system's allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set_options(options: &[(libc::c_int, libc::c_int)]) {
    for &(option, value) in options {
        // SAFETY: takes two numbers, and may be called at any time.
        unsafe { libc::mallopt(option, value) };
    }
}

/// `mi_option_purge_delay` in mimalloc.h, which the bindings leave out.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed pages in the process, unless mimalloc's own variable (`MIMALLOC_PURGE_DELAY`) sets a delay.
fn never_purge() {
    let never = -1;
    // SAFETY: takes two numbers. It runs before the first allocation, so no thread is in mimalloc.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, never) };
}

/// A day, in milliseconds: longer than a step between two calls of [`mimalloc_collect`].
const A_DAY: std::ffi::c_long = 86_400_000;

/// Lets [`mimalloc_collect`] return pages that are freed from now on. Pages that never are purged are not even listed
/// for it (`mi_arena_schedule_purge` in mimalloc's arena.c). A delay that its own variable sets stays.
pub(super) fn mimalloc_keep_until_collected() {
    // SAFETY: take and return numbers.
    unsafe {
        if libmimalloc_sys::mi_option_get(PURGE_DELAY) < 0 {
            libmimalloc_sys::mi_option_set(PURGE_DELAY, A_DAY);
        }
    }
}

/// Returns this thread's free pages, and those of all arenas, to the system.
pub(super) fn mimalloc_collect() {
    // SAFETY: takes a flag, and may be called at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Bytes that mimalloc holds of the system. `None` if it gives freed pages back: its counter of committed bytes, which
/// this is, goes on counting them (`mi_os_decommit_ex` lowers it only where pages must be committed again, and Linux
/// does not ask for that).
pub(super) fn mimalloc_reserved() -> Option<u64> {
    // SAFETY: takes and returns a number.
    let purges = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) } >= 0;
    if purges {
        return None;
    }
    let mut committed = 0;
    let skip = std::ptr::null_mut;
    // SAFETY: fills the one pointer that is not null.
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
    Some(committed as u64)
}

/// Allocates with the backend of this process, [`current_backend`].
pub(super) struct BackendAllocator;

// SAFETY: passes every request unchanged to one allocator, which never changes.
unsafe impl GlobalAlloc for BackendAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator needs.
        unsafe {
            match current_backend() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.alloc(layout),
                AllocatorBackend::Mimalloc => MiMalloc.alloc(layout),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator needs.
        unsafe {
            match current_backend() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.alloc_zeroed(layout),
                AllocatorBackend::Mimalloc => MiMalloc.alloc_zeroed(layout),
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator needs, and the pointer came from it.
        unsafe {
            match current_backend() {
                AllocatorBackend::System | AllocatorBackend::Retain => System.realloc(pointer, layout, new_size),
                AllocatorBackend::Mimalloc => MiMalloc.realloc(pointer, layout, new_size),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises that the allocator needs, and the pointer came from it.
        unsafe {
            match current_backend() {
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
