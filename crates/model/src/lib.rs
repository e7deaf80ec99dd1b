//! Models that are trained: where their weights come from, how they are built, and how they compute.
//!
//! [`Source`] gives the weights, a range of rows at a time, so that a whole model is never held in 16 or 32 bits:
//! seeded random ones, or those of a checkpoint. [`load`] builds the [`Model`] from it. `families.rs` lists the
//! families; each kind of model (`decoder/`, `encoder/`) has a folder with its layers, how they are built, and its
//! [`Chain`] of segments.

mod chain;
mod checkpoint;
mod decoder;
mod encoder;
mod error;
mod families;
mod host_blocks;
mod load;
mod loader;
mod merge;
mod random_weights;
mod safetensors_file;
mod save;
mod source;

pub use chain::{Chain, Evaluated, SegmentNames, input};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::{LoadError, ModelError};
pub use families::Model;
pub use host_blocks::HostBlocks;
pub use load::{load, load_dry};
pub use merge::{MergeError, merge};
pub use save::{SaveError, is_saved, save, save_as_it_is};
pub use source::Source;
