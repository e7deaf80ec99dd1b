//! What training allocates and releases, in order, and the account of what is live.

mod account;
mod trace;

pub use account::{Account, Mean};
pub use trace::{Block, Event, Module, Trace};
