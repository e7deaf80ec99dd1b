//! The allocations and releases of training, and the account of live bytes.

mod account;
mod events;

pub use account::{Account, Mean};
pub use events::{Block, Event, Module, Trace};
