//! What training will take, before anything runs.
//!
//! A stack writes a [`trace`] of what it will allocate and release: `candle/`, our trainer, or `torch/`, that of
//! transformers, PEFT and bitsandbytes on a GPU. An [`account`] replays it for the live bytes, PyTorch's
//! [`caching_allocator`] for those that a GPU has to have. [`Planner`] puts together what is said of a cell, and
//! [`advice`] what would make it fit.

pub mod account;
pub mod advice;
pub mod batches;
pub mod caching_allocator;
pub mod candle;
pub mod device;
mod planner;
pub mod torch;
pub mod trace;

use std::path::PathBuf;

use crate::{data::DataError, model::ModelError, spec::cell::Invalid};

pub use planner::{Options, Planner};

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
    Version(#[from] torch::VersionError),
    #[error("{0}")]
    Allocator(Invalid),
    #[error("the torch stack is planned with synthetic data of known lengths (fixed, or a list)")]
    UnknownLengths,
}
