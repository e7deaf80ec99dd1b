//! Errors of a model's name and of its files.

use std::io;
use std::path::PathBuf;

use arch::ArchError;
use base::text::suggestion;
use quant::QuantError;

/// A model that cannot be used, with the file and the tensor that are wrong and what would be right.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum ModelError {
    #[error(transparent)]
    Arch(#[from] ArchError),
    #[error("`weights: pretrained` needs a directory with weights; `{0}` is a preset and has random weights only")]
    PretrainedPreset(&'static str),
    #[error("cannot read {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{dir}: no weights: neither model.safetensors nor model.safetensors.index.json is there{hint}",
        dir = dir.display()
    )]
    NoWeights { dir: PathBuf, hint: &'static str },
    #[error("{path}: not an index of safetensors files: {reason}", path = path.display())]
    Index { path: PathBuf, reason: String },
    #[error("{index} names a file that is missing: {shard}", index = index.display(), shard = shard.display())]
    MissingShard { index: PathBuf, shard: PathBuf },
    #[error("{path}: not a safetensors file: {reason}", path = path.display())]
    Header { path: PathBuf, reason: String },
    #[error(
        "{path}: {state}: its header describes {expected} bytes, the file has {got}",
        path = path.display(),
        state = if got < expected { "truncated" } else { "too long" }
    )]
    FileLength { path: PathBuf, expected: u64, got: u64 },
    #[error("{place}: tensor `{name}` is missing{hint}", place = place.display())]
    MissingTensor { place: PathBuf, name: String, hint: String },
    #[error(
        "{path}: tensor `{name}` is not a weight of this model: config.json describes {layers} layers{kind}",
        path = path.display()
    )]
    UnexpectedTensor {
        path: PathBuf,
        name: String,
        layers: usize,
        kind: &'static str,
    },
    #[error(
        "{path}: tensor `{name}` is not `{embedding}`, but config.json has `tie_word_embeddings: true`; write false there \
         to use both",
        path = path.display()
    )]
    UntiedHead {
        path: PathBuf,
        name: String,
        embedding: String,
    },
    #[error("{path}: tensor `{name}` has shape {got:?}, config.json makes it {expected:?}", path = path.display())]
    Shape {
        path: PathBuf,
        name: String,
        expected: Vec<usize>,
        got: Vec<usize>,
    },
    #[error("{path}: tensor `{name}` is stored as {dtype}; F32, F16 and BF16 can be read", path = path.display())]
    StoredDtype { path: PathBuf, name: String, dtype: String },
    #[error("cannot read tensor `{name}` from {path}: {source}", path = path.display())]
    ReadTensor {
        path: PathBuf,
        name: String,
        source: io::Error,
    },
    #[error("the model has no tensor `{name}`{hint}")]
    NoSuchTensor { name: String, hint: String },
}

/// An error while a model is built.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum LoadError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("failed to quantise {name}: {error}")]
    Quantise { name: String, error: QuantError },
    #[error("tensor `{name}`, row {row}: {}", not_finite(*value, dtype))]
    NotFinite {
        name: String,
        row: usize,
        value: f32,
        dtype: &'static str,
    },
    #[error("the activation {0} is not computed here")]
    Activation(String),
    #[error("models of the family {0} are not trained here")]
    Family(&'static str),
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

fn not_finite(value: f32, dtype: &str) -> String {
    match value.is_finite() {
        true => format!("{value:e} is beyond the largest number of {dtype}; choose another `dtype`"),
        false => format!("{value} is not a finite number; the checkpoint is damaged"),
    }
}

/// `; did you mean ...?` with the candidate nearest to `name`; empty if none is near.
pub(super) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    suggestion(name, candidates).map_or_else(String::new, |meant| format!("; {meant}"))
}
