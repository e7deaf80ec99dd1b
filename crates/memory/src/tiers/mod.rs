//! Two tiers of memory: the device's, which computes, and the host's, where tensors wait. On a CPU both are ordinary
//! memory; the ledger counts them apart, and data is copied between them as it would be for a GPU.

mod copier;
mod host_tensor;
#[cfg(feature = "cuda")]
mod pinned;
mod storage;
mod traffic;

pub use copier::{Pending, copy_aside};
pub use storage::{HostCopy, Slot, Storage};
pub use traffic::{Traffic, count_copied, reset_traffic, traffic};
