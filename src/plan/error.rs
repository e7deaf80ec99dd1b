//! Errors of planning.

use std::path::PathBuf;

use crate::data::DataError;
use crate::model::ModelError;
use crate::spec::cell::Invalid;

/// Why a cell could not be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("the model `{model}` has {most} positions (max_position_embeddings), fewer than max_seq_length")]
    Positions { model: String, most: usize },
    #[error("{}: {why}", .path.display())]
    Config { path: PathBuf, why: String },
    #[error("the preset `{0}` is of the candle stack alone")]
    OursAlone(String),
    #[error("the model `{0}` is not for this task: encoders are for sequence_classification, decoders for causal_lm")]
    Task(String),
    #[error("`target_modules`: the model `{0}` has none of these layers, which PEFT refuses")]
    NoModule(String),
    #[error("{0}")]
    Version(#[from] crate::torch::VersionError),
    #[error("{0}")]
    Allocator(Invalid),
    #[error("the torch stack is planned with synthetic data of known lengths (fixed, or a list)")]
    UnknownLengths,
}
