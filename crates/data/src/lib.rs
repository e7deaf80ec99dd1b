//! Samples and batches: token ids from a file, the sample text or a seeded generator.
//!
//! [`load`] tokenises everything once. It streams files, so that it never holds their text, and keeps the ids of large
//! data in a temporary file: a sample then takes eight bytes of memory. [`Dataset::batches`] yields one effective batch
//! (all micro-batches of an optimizer step) at a time. [`sampler`] gives the order alone.

mod batches;
mod chat_template;
mod collate;
mod conversation;
mod dataset;
mod error;
mod files;
mod form;
mod formats;
mod grouping;
mod labels;
mod layout;
mod lengths;
mod load;
mod micro_batch;
mod preview;
mod prompt;
mod reading;
mod render;
mod sample;
mod sample_lengths;
mod sampler;
mod samples;
mod shown;
mod skipped;
mod source;
mod synthetic;
mod targets;
#[cfg(test)]
mod testing;
mod token_ids;
mod tokenise;
mod tokenizer;
mod tokenizer_class;

pub use batches::{Batches, Order};
pub use dataset::Dataset;
pub use error::{ChatTemplateError, DataError};
pub use files::all_files;
pub use grouping::group_by_length;
pub use layout::{LaidOut, Layout};
pub use lengths::{TextLengths, lengths};
pub use load::{TrainingSamples, load, sampler};
pub use micro_batch::{EffectiveBatch, MicroBatch};
pub use preview::{Preview, Tokens, preview};
pub use reading::Reading;
pub use sample_lengths::SampleLengths;
pub use sampler::Sampler;
pub use shown::Shown;
pub use skipped::{Skipped, SkippedParts};
pub use source::{KeyError, check};
pub use targets::SampleTargets;
pub use tokenizer::{EMBEDDED as EMBEDDED_TOKENIZER, tokens_of_text};
