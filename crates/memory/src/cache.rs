//! The allocator's cache: freed memory that it keeps of the system, returned on demand.

use options::AllocatorBackend;

use super::backend::current_backend;
use super::backend::{mimalloc_collect, mimalloc_keep_until_collected};

/// Prepares the allocator for [`empty_cache`], before the memory that is to be returned is allocated.
pub fn prepare_empty_cache() {
    if current_backend() == AllocatorBackend::Mimalloc {
        mimalloc_keep_until_collected();
    }
}

/// Returns freed memory to the system, if the allocator does not keep it on purpose. Live memory stays where it is.
pub fn empty_cache() {
    // Specs cannot ask for both.
    if current_backend() != AllocatorBackend::Retain {
        return_freed();
    }
}

/// Returns freed memory to the system, whatever the allocator: what comes next shows in its figures alone.
pub fn return_freed() {
    match current_backend() {
        AllocatorBackend::System | AllocatorBackend::Retain => trim_c_library(),
        AllocatorBackend::Mimalloc => mimalloc_collect(),
    }
}

/// See malloc_trim(3): the free pages of every heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_c_library() {
    // SAFETY: takes a number, and may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries keep no cache that they could be asked for.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_c_library() {}
