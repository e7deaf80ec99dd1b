//! What training allocates and releases, in order, and the account of what is live.

mod account;
mod events;

pub use account::{Account, Mean};
pub use events::{Block, Event, Module, Trace};
