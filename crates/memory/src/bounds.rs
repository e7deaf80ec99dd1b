//! Bounds on foreign work by the global allocator ([`base::bounds`]).

use base::bounds::{MemoryBound, bound_work};

use super::host_bound::{begin, end};

/// Has the allocator bound the memory of foreign work, in a program whose global allocator is a
/// [`LedgerAllocator`](super::LedgerAllocator).
pub fn bound_foreign_work() {
    bound_work(MemoryBound { begin, end });
}
