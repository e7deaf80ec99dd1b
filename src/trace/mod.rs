//! The allocations and releases of training, and the account of live bytes.

mod account;
mod events;
mod live;

pub use account::{Account, Mean};
pub use events::{Block, Event, Trace};
pub(crate) use live::LiveTensors;
