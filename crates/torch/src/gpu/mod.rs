//! GPUs by name: their memory, the memory of a process that is not tensors, and what they can compute.

mod budget;
mod capability;
mod card;
mod context;
mod rates;
mod support;

pub use budget::Budget;
pub use capability::{Architecture, ComputeCapability};
pub use card::{Gpu, MemorySource, counted};
pub use context::Context;
pub use rates::Rates;
pub use support::{NATIVE_BFLOAT16, Technique, autocasts_to_bfloat16, wheels};
