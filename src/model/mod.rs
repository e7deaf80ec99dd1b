//! Models that are trained: where their weights come from, how they are built, and how they compute.
//!
//! [`Source`] gives the weights, a range of rows at a time, so that a whole model is never held in 16 or 32 bits: seeded
//! random ones, or those of a checkpoint. [`load`] builds the [`Model`] from it. Each family (`llama/`, `encoder/`) has a
//! folder with its layers, how they are built, and its [`Chain`] of segments.

mod chain;
mod checkpoint;
mod encoder;
mod error;
mod families;
mod llama;
mod load;
mod loader;
mod random_weights;
mod safetensors_file;
mod source;

pub use chain::{Chain, Evaluated, SegmentNames, input};
pub use encoder::Encoder;
pub use error::{LoadError, ModelError};
pub use families::Model;
pub(crate) use families::with_chain;
pub use llama::Llama;
pub use load::load;
pub(crate) use loader::CHUNK_ELEMENTS;
pub use loader::dense_dtype;
pub use source::Source;
