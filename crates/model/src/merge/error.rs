//! Why an adapter cannot be merged.

use std::io;
use std::path::PathBuf;

use peft::AdapterError;

use crate::error::ModelError;

/// The reason why an adapter cannot be merged.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum MergeError {
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{}: {reason}", .path.display())]
    Config { path: PathBuf, reason: String },
    #[error("{}: {tensor}: {reason}", .path.display())]
    Tensor {
        path: PathBuf,
        tensor: String,
        reason: String,
    },
    #[error("the folder {} is there already; choose another, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Stopped,
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}
