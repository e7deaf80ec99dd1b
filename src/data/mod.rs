//! Samples and batches: token ids from a file, the sample text or a seeded generator.
//!
//! [`load`] tokenises everything once into one flat array of ids ([`Samples`]). It streams files, so that it never holds
//! their text. [`Dataset::batches`] then yields one effective batch (all micro-batches of an optimizer step) at a time.

mod batches;
mod collate;
mod dataset;
mod error;
mod grouping;
mod jsonl;
mod labels;
mod layout;
mod lengths;
mod lines;
mod micro_batch;
mod parquet;
mod samples;
mod source;
mod synthetic;
#[cfg(test)]
mod testing;
mod text;
mod tokenizer;

pub use batches::{Batches, Order};
pub use dataset::Dataset;
pub use error::DataError;
pub use grouping::group_by_length;
pub use layout::{LaidOut, Layout};
pub use lengths::{SampleLengths, lengths};
pub use micro_batch::{EffectiveBatch, MicroBatch};
pub use samples::Samples;
pub use source::{check, load};
pub use tokenizer::EMBEDDED as EMBEDDED_TOKENIZER;
