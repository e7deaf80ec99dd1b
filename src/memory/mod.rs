//! The byte-exact account of live memory: a ledger under the global allocator, split by category and phase, with a budget;
//! and what the operating system says about the process.
//!
//! Everything unsafe that memory needs is in here. The ledger counts in every process that installs [`LedgerAllocator`] as
//! its global allocator; in others every figure is zero and labels do nothing. Under it lies the allocator that
//! [`AllocatorBackend`](crate::options::AllocatorBackend) names.

mod allocator;
mod backend;
mod budget;
mod category;
pub mod event;
mod label;
mod ledger;
mod module;
pub mod probes;
mod recorder;
mod scope;
mod spin;
pub mod timeline;

pub use allocator::{LedgerAllocator, installed};
pub use backend::{BACKEND_VARIABLE, BackendAllocator};
pub use budget::{OOM_EXIT_CODE, arm};
pub use category::{ByCategory, ByPhase, Category, Phase};
pub use label::{describe, describe_buffer, dtype_name, label};
pub use ledger::{Live, Peaks, live, peaks, phase, reset_peaks, set_phase};
pub use module::{Module, module, module_of, part};
pub use scope::{Scope, scope};
