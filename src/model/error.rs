//! Errors of a model's name and of its files.

use std::io;
use std::path::PathBuf;

use crate::options::Task;

/// A model that cannot be used, with the file and the tensor that are wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(
        "unknown model `{name}`: neither a preset ({presets}) nor a directory ({path}){hint}",
        path = path.display(),
        presets = super::Preset::ALL.map(super::Preset::name).join(", ")
    )]
    UnknownModel { name: String, path: PathBuf, hint: String },
    #[error("model `{0}`: models are not downloaded yet; give a preset or a directory in Hugging Face's layout")]
    Hub(String),
    #[error("`weights: pretrained` needs a directory with weights; `{0}` is a preset and has random weights only")]
    PretrainedPreset(&'static str),
    #[error("cannot read {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {reason}", path = path.display())]
    Config { path: PathBuf, reason: String },
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
        "{path}: tensor `{name}` is no weight of this model: config.json describes {layers} layers{kind}",
        path = path.display()
    )]
    UnexpectedTensor {
        path: PathBuf,
        name: String,
        layers: usize,
        kind: &'static str,
    },
    #[error(
        "`task: {asked}`: the model is for {can}; write `task: {can}`",
        asked = asked.name(),
        can = can.name()
    )]
    Task { asked: Task, can: Task },
    #[error("`num_labels: {asked}`: the checkpoint's classifier has {has} labels; write `num_labels: {has}`")]
    Labels { asked: usize, has: usize },
    #[error("`target_modules`: the model has no linear layer `{name}`; it has {known}")]
    Module { name: String, known: String },
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

/// `; did you mean ...?` with the candidate nearest to `name`, or nothing where none is near.
pub(super) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    const NEAR: f64 = 0.85;
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}
