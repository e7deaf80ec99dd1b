//! Results: the records that a study leaves on disk, and the frame that is made from them.

pub mod collect;
pub mod columns;
pub mod datum;
pub mod frame;
pub mod prediction;
pub mod record;
pub mod store;
pub mod timeline;
mod trainable;
mod words;

pub use trainable::{all_parameters, trainable_share};
pub use words::{figure, setting};
