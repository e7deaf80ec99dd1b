use crate::{
    adapter::peft::AdapterError,
    data::DataError,
    model::{LoadError, ModelError},
    results::store::StoreError,
};

/// Why a cell could not be trained to its end.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(
        "max_seq_length: {asked} tokens are more than the model has positions for ({positions}, config.json's \
         max_position_embeddings)"
    )]
    Positions { asked: usize, positions: usize },
    #[error("device {device:?} cannot be used: {reason}")]
    Device { device: String, reason: String },
    #[error(
        "step {step}: the {what} is {value}; the numbers left the range of the dtype (a lower learning_rate, \
         max_grad_norm, or bfloat16 instead of float16 may help)"
    )]
    NotFinite {
        step: usize,
        what: &'static str,
        value: f64,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("failed to write the adapter")]
    Adapter(#[from] AdapterError),
    #[error(transparent)]
    Compute(#[from] candle_core::Error),
}
