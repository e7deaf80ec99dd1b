//! The data frame that is made from the records of a study, and from their timelines.

pub mod collect;
pub mod columns;
pub mod datum;
pub mod frame;
pub mod timeline;
mod trainable;
mod words;

pub use trainable::{all_parameters, trainable_share};
pub use words::{figure, setting};
