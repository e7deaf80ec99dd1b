//! PyTorch's CUDA caching allocator: how much of a GPU it holds for what a program allocates.
//!
//! Rules and names of PyTorch 2.15 (`c10/cuda/CUDACachingAllocator.cpp`, `c10/core/AllocatorConfig.cpp`), without
//! graph capture and pools of the user's own. Streams are those that a trace names, and are done with a block when it says
//! so (`streams`, `awaited`). `python/allocator` compares with PyTorch's own.
//!
//! A request is rounded up ([`rounding`]) and belongs to the small or the large pool. The free block of the pool that
//! fits best is taken (`pool`) and split where much is left; where there is none, the device is asked for a segment
//! (`segments`, `expandable`), and where it refuses, cached segments go back to it first. Blocks that are freed merge
//! with their free neighbours and stay.

mod allocator;
mod awaited;
mod blocks;
mod collection;
mod device;
mod expandable;
mod free;
mod other_loads;
mod pool;
mod pool_kind;
mod replay;
pub mod rounding;
mod segments;
pub mod settings;
mod stats;
mod streams;
#[cfg(test)]
mod tests;

pub use allocator::{Allocation, CachingAllocator, OutOfMemory};
pub use device::DeviceMemory;
pub use other_loads::reserved_peaks;
pub use replay::{AllocatedPeak, AllocationFailed, Moment, Reserved, ReservedPeak, replay};
pub use settings::{Settings, TieBreak};
pub use stats::{Amount, PoolStats, Stats};
