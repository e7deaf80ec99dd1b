//! Data that cannot be trained on.

use std::io;
use std::path::PathBuf;

use arch::ArchError;
use hub::SplitError;
use options::DataFormat;

use super::skipped::Skipped;

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
    #[error("{path}: it {error}")]
    Split { path: String, error: SplitError },
    #[error(
        "{path}: neither a folder nor a data set, so there are no files among which a split (`{split}`) chooses; leave the key \
         out",
        path = path.display()
    )]
    SplitOfFile { path: PathBuf, split: String },
    #[error("{pattern}: no file matches", pattern = pattern.display())]
    NoMatch { pattern: PathBuf },
    #[error("{pattern}: not a pattern of files: {reason}", pattern = pattern.display())]
    Pattern { pattern: PathBuf, reason: String },
    #[error("{path}: {what} of files, which is not read; unpack it", path = path.display())]
    Archive { path: PathBuf, what: &'static str },
    #[error("{path}: the file changed while it was read; wait until it is complete, and run again", path = path.display())]
    Changed { path: PathBuf },
    #[error(
        "{path}: the file is named twice; data is read once, and is either trained on or evaluated with",
        path = path.display()
    )]
    Twice { path: PathBuf },
    #[error("{path}: the file is empty", path = path.display())]
    EmptyFile { path: PathBuf },
    #[error("{path}: a text file has no columns; remove `{key}: {column}`", path = path.display())]
    ColumnOfText {
        path: PathBuf,
        key: &'static str,
        column: String,
    },
    #[error(
        "{path}: not text: {what} at byte {offset}; text is UTF-8 without NUL",
        path = path.display()
    )]
    Binary {
        path: PathBuf,
        offset: u64,
        what: &'static str,
    },
    #[error(
        "{path}:{line}: a carriage return stands alone, as old programs end lines; a line ends in a newline: convert the file",
        path = path.display()
    )]
    CarriageReturn { path: PathBuf, line: u64 },
    #[error("{place}: a sample is longer than {limit} MiB")]
    TooLong { place: String, limit: usize },
    #[error("{path}:{line}:{column}: not a JSON object: {reason}", path = path.display())]
    Json {
        path: PathBuf,
        line: u64,
        column: usize,
        reason: String,
    },
    #[error(
        "{path}: there {are}; write one array, or use `format: jsonl` for an object a line",
        path = path.display(),
        are = match arrays {
            0 => "is no array of objects".to_owned(),
            arrays => format!("are {arrays} arrays of objects, and the data must be in one"),
        }
    )]
    JsonArray { path: PathBuf, arrays: usize },
    #[error("{place}: not comma-separated values: {reason}")]
    Csv { place: String, reason: String },
    #[error("{place}: no column `{column}`; there are: {columns}{meant}")]
    MissingColumn {
        place: String,
        column: String,
        columns: String,
        meant: String,
    },
    #[error(
        "{place}: no column `messages`, no `prompt` and `completion`, no `instruction` and `output`, and no `text`; there are: \
         {columns}; name yours: `column`, `prompt_column` and `completion_column`, or `messages_column`{help}"
    )]
    NoForm {
        place: String,
        columns: String,
        help: String,
    },
    #[error(
        "{place}: column `{column}`: {reason}; name what is read, such as `data: {{column: text}}`, or leave the column out"
    )]
    Refused {
        place: String,
        column: String,
        reason: String,
    },
    #[error("{place}: `{key}` is not for {form}; leave it out, or name the columns of another form")]
    KeyOfForm {
        place: String,
        key: &'static str,
        form: &'static str,
    },
    #[error("{place}: column `{column}` {reason}")]
    Messages {
        place: String,
        column: String,
        reason: String,
    },
    #[error("{place}: {error}")]
    ChatTemplate { place: String, error: ChatTemplateError },
    #[error("{place}: the chat template fails at {template}: {reason}")]
    ChatTemplateFails {
        place: String,
        template: String,
        reason: String,
    },
    #[error(
        "{place}: the text of the messages up to message {message} is not the beginning of the whole text, so it is not \
         known what is predicted; use a chat template whose earlier messages stay the same, or one with `{{% generation %}}`"
    )]
    NotABeginning { place: String, message: usize },
    #[error(
        "{place}: the conversation opens with the assistant, and the chat template does not mark what it says, so it is not \
         known what is predicted; begin with another role, or use a chat template with `{{% generation %}}`"
    )]
    OpensWithAssistant { place: String },
    #[error(
        "a completion ends in the token that ends a text, and neither tokenizer_config.json nor config.json of `{model}` \
         names one that its tokenizer has; name an `eos_token` in its tokenizer_config.json"
    )]
    NoEosToken { model: String },
    #[error("`data.eos_token: {token}`: the tokenizer of `{model}` has no such token; name one that it has")]
    UnknownToken { token: String, model: String },
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
    #[error("{origin}: no labels; use synthetic data, or a file with a `label_column`")]
    Unlabelled { origin: String },
    #[error("`num_labels: {labels}`: synthetic samples have tokens that tell their label, and there are {vocab_size}")]
    LabelsOfTokens { labels: usize, vocab_size: usize },
    #[error("{path}: the name does not say what the file is; give the `format`: {}", DataFormat::NAMES, path = path.display())]
    Format { path: PathBuf },
    #[error("{path}: not a Parquet file that can be read: {reason}", path = path.display())]
    Parquet { path: PathBuf, reason: String },
    #[error(
        "{path}: column `{column}` has values of type `{dtype}`, which are neither texts nor numbers; write them as text",
        path = path.display()
    )]
    ParquetType {
        path: PathBuf,
        column: String,
        dtype: String,
    },
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
    #[error("cannot start a thread to read samples: {0}")]
    Threads(io::Error),
    /// The process that read the data says so.
    #[error("{0}")]
    Apart(String),
    /// The process that read the data ended before it could say what is wrong with them, or took too much.
    #[error("{0}")]
    Ended(String),
    #[error("`max_seq_length` is {0}; a sample needs two tokens, since each token is predicted from those before it")]
    MaxSeqLength(usize),
    #[error("cannot keep the token ids in a temporary file in {folder}: {source}", folder = folder.display())]
    TokenIds { folder: PathBuf, source: io::Error },
    #[error(
        "{origin}: nothing to train on: no sample has two tokens or more{left_out}",
        left_out = left_out(skipped)
    )]
    Empty { origin: String, skipped: Skipped },
    #[error(
        "{origin}: a micro-batch of `batch_size: {batch_size}` needs as many samples, and there {are} {samples} to train on; \
         lower it or give more data{help}",
        are = if *samples == 1 { "is" } else { "are" }
    )]
    TooFew {
        origin: String,
        batch_size: usize,
        samples: usize,
        help: &'static str,
    },
    #[error(
        "`packing_separator: eos`: the config.json of {model} names no `eos_token_id` of its vocabulary; name one there, or \
         use `packing_separator: none`"
    )]
    NoEos { model: String },
    #[error(
        "{origin}: nothing to evaluate with: no sample has a token that is predicted{left_out}",
        left_out = left_out(skipped)
    )]
    NothingToEvaluate { origin: String, skipped: Skipped },
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

fn left_out(skipped: &Skipped) -> String {
    match skipped.to_string() {
        nothing if nothing.is_empty() => nothing,
        skipped => format!(" ({skipped})"),
    }
}

/// The reason why there is no template that can be rendered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChatTemplateError {
    /// The model has none.
    #[error(
        "{looked_at}: no chat template, which messages need; name a file with one: `data: {{chat_template: \
         chat_template.jinja}}`"
    )]
    Missing {
        /// Where it would be.
        looked_at: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The file is not what it should be.
    #[error("{place}: {reason}")]
    Invalid {
        /// The file, with a line if one is known.
        place: String,
        /// The reason.
        reason: String,
    },
}
