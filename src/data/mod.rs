//! What a cell trains on: token ids from a file, the sample text or a seeded generator, and the batches they make.
//!
//! [`load`] tokenises everything once, into one flat array of ids ([`Samples`]); files are streamed, so that their text
//! is never held. [`Dataset::batches`] then gives an effective batch (all micro-batches of an optimizer step) at a time.

mod batches;
mod dataset;
mod error;
mod jsonl;
mod labels;
mod lines;
mod parquet;
mod samples;
mod source;
mod synthetic;
mod text;
mod tokenizer;

pub use batches::{Batches, EffectiveBatch, MicroBatch};
pub use dataset::Dataset;
pub use error::DataError;
pub use samples::Samples;
pub use source::{check, load};
