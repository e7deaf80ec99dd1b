//! Reasons why training ends early.

use std::io;
use std::path::PathBuf;

use data::DataError;
use model::{LoadError, ModelError, SaveError};
use options::NoCuda;
use peft::AdapterError;
use records::store::StoreError;

/// The reason why a training run did not finish.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The model cannot be opened.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The weights cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The data cannot be loaded.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model has fewer positions than the longest sample has tokens.
    #[error(
        "max_seq_length: {asked} tokens are more than the model has positions for ({positions}, by its \
         config.json)"
    )]
    Positions {
        /// Tokens.
        asked: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// The device needs CUDA, and this build has none.
    #[error(transparent)]
    NoCuda(#[from] NoCuda),
    /// The device cannot be opened.
    #[error("device {device:?} cannot be used: {reason}")]
    Device {
        /// The device's name in specs.
        device: String,
        /// candle's message.
        reason: String,
    },
    /// The loss or the gradients' norm is infinite or not a number.
    #[error(
        "step {step}: the {what} is {value}; the numbers left the range of the dtype (a lower learning_rate, \
         max_grad_norm, or bfloat16 instead of float16 may help)"
    )]
    NotFinite {
        /// From 1.
        step: usize,
        /// The figure's name.
        what: &'static str,
        /// The figure.
        value: f64,
    },
    /// The steps cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A checkpoint cannot be gone on from.
    #[error("cannot go on from `{}`", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The adapter cannot be written.
    #[error("failed to write the adapter")]
    Adapter(#[from] AdapterError),
    /// The adapter that training goes on from cannot be read, or is not the cell's.
    #[error("init_adapter")]
    InitAdapter(#[source] AdapterError),
    /// The model cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The inputs of another engine cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Inputs {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// candle reports an error.
    #[error(transparent)]
    Compute(#[from] candle_core::Error),
}
