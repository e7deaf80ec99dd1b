//! Data that cannot be trained on.

use std::io;
use std::path::PathBuf;

use crate::arch::ArchError;

/// The reason why data cannot be trained on: the place, the mistake, and the mend.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message documents its variant and fields")]
pub enum DataError {
    #[error(transparent)]
    Model(#[from] ArchError),
    #[error("cannot read {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: it is not a regular file", path = path.display())]
    NotAFile { path: PathBuf },
    #[error("{path}: the file is empty", path = path.display())]
    EmptyFile { path: PathBuf },
    #[error("{path}: a text file has no columns; remove `column: {column}`", path = path.display())]
    ColumnOfText { path: PathBuf, column: String },
    #[error(
        "{path}: not text: {what} at byte {offset}; text is UTF-8 without NUL",
        path = path.display()
    )]
    Binary {
        path: PathBuf,
        offset: u64,
        what: &'static str,
    },
    #[error("{path}:{line}: a sample is longer than {limit} MiB", path = path.display())]
    TooLong { path: PathBuf, line: u64, limit: usize },
    #[error("{path}:{line}:{column}: not a JSON object: {reason}", path = path.display())]
    Json {
        path: PathBuf,
        line: u64,
        column: usize,
        reason: String,
    },
    #[error("{place}: no column `{column}`; there are: {columns}")]
    MissingColumn {
        place: String,
        column: String,
        columns: String,
    },
    #[error("{place}: column `{column}` is {got}, not text")]
    NotText { place: String, column: String, got: String },
    #[error("{place}: column `{column}` {reason}")]
    Label {
        place: String,
        column: String,
        reason: String,
    },
    #[error(
        "{origin}: there are {count} labels ({names}), and `num_labels` is {asked}; write `num_labels: {count}`",
        count = names.split(", ").count()
    )]
    FewLabels {
        origin: String,
        names: String,
        asked: usize,
    },
    #[error("{origin}: no labels; use synthetic data, or a JSONL or Parquet file with a `label_column`")]
    Unlabelled { origin: String },
    #[error("`num_labels: {labels}`: synthetic samples have tokens that tell their label, and there are {vocab_size}")]
    LabelsOfTokens { labels: usize, vocab_size: usize },
    #[error("{path}: the name does not say what the file is; give the `format`: text, jsonl or parquet", path = path.display())]
    Format { path: PathBuf },
    #[error("{path}: not a Parquet file that can be read: {reason}", path = path.display())]
    Parquet { path: PathBuf, reason: String },
    #[error("{path}: no tokenizer; the model's directory needs its tokenizer.json to read text", path = path.display())]
    NoTokenizer { path: PathBuf },
    #[error(
        "`{model}` has no tokenizer, which decides how long the samples are; give a directory with the model's config.json \
         and tokenizer.json (weights are not needed), such as `model: ./{name}`",
        name = model.rsplit('/').next().unwrap_or(model)
    )]
    PresetTokenizer { model: String },
    #[error("{place}: not a tokenizer: {reason}")]
    Tokenizer { place: String, reason: String },
    #[error(
        "{place}: token `{token}` has id {id}, and the model has {vocab_size} embeddings; tokenizer and model do not \
         belong together"
    )]
    TokenId {
        place: String,
        token: String,
        id: u32,
        vocab_size: usize,
    },
    #[error("`max_seq_length` is {0}; a sample needs two tokens, since each token is predicted from those before it")]
    MaxSeqLength(usize),
    #[error("cannot keep the token ids in a temporary file in {folder}: {source}", folder = folder.display())]
    TokenIds { folder: PathBuf, source: io::Error },
    #[error(
        "{origin}: nothing to train on: no sample has two tokens or more{left_out}",
        left_out = left_out(*skipped)
    )]
    Empty { origin: String, skipped: usize },
    #[error(
        "{origin}: a step of `batch_size` × `gradient_accumulation_steps` = {batch_size} × {accumulation} needs {needed} \
         samples, and there are {samples} to train on; lower one of them or give more data",
        needed = batch_size * accumulation
    )]
    TooFew {
        origin: String,
        batch_size: usize,
        accumulation: usize,
        samples: usize,
    },
    #[error(
        "`packing_separator: eos`: the config.json of {model} names no `eos_token_id` of its vocabulary; name one there, or \
         use `packing_separator: none`"
    )]
    NoEos { model: String },
    #[error("{origin}: more samples than can be numbered ({})", u32::MAX)]
    TooMany { origin: String },
    #[error(
        "`eval_fraction: {fraction}` of {samples} samples holds out {held_out} and leaves {left} to train on; at least \
         one is needed on each side",
        left = samples - held_out
    )]
    EvalFraction {
        fraction: f64,
        samples: usize,
        held_out: usize,
    },
}

fn left_out(skipped: usize) -> String {
    match skipped {
        0 => String::new(),
        skipped => format!(" ({skipped} shorter ones were left out)"),
    }
}
