//! The byte-exact account of live memory: a ledger under the global allocator, split by category and phase, with
//! two tiers, a budget for each, and a timeline; and the operating system's figures of the process.
//!
//! The ledger counts in every process that installs [`LedgerAllocator`] as its global allocator. In other processes
//! every figure is zero and labels do nothing. [`AllocatorBackend`](options::AllocatorBackend) names the
//! allocator under the ledger.
#![expect(unsafe_code, reason = "a global allocator, and calls of the operating system")]

mod allocator;
mod backend;
mod binding;
mod bounds;
mod budget;
mod buffer;
mod cache;
pub mod control_group;
mod device_pool;
mod dry_run;
mod host_bound;
mod host_bytes;
mod ledger;
mod module;
mod module_names;
pub mod probes;
mod process_ledger;
mod recorder;
mod scope;
mod spin_lock;
pub mod tiers;
pub mod timeline;

pub use allocator::{LedgerAllocator, ProcessAllocator, installed};
pub use backend::{BACKEND_VARIABLE, current_backend, keep_freed_pages};
pub use binding::{Entered, enter, enter_layer};
pub use bounds::bound_foreign_work;
pub use budget::{OOM_EXIT_CODE, Tiers};
pub use buffer::{Buffer, Plain};
pub use cache::{empty_cache, prepare_empty_cache, return_freed};
pub use device_pool::{DevicePool, PoolBytes};
pub use dry_run::{dry_run, dry_run_instruction_set, is_dry_run, mark};
pub use ledger::{Live, Peaks};
pub use module::{ModuleScope, module, part, whole};
pub use process_ledger::{arm, live, peaks, phase, reset_peaks, set_phase};
pub use scope::{Scope, scope};
