//! The allocations and releases of training, and the account of live bytes.

mod account;
mod category;
mod events;
mod live;
mod module;
pub mod recording;

pub use account::{Account, Mean, Peak};
pub use category::{ByCategory, ByPhase, Category, Phase};
pub use events::{Block, Event, Occurrence, Section, Trace};
pub use live::LiveTensors;
pub use module::Module;
