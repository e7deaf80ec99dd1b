//! Errors of a model's description.

use std::io;
use std::path::PathBuf;

use base::text::Mistake;
use options::Task;

use super::family::Family;

/// A `config.json` that is not understood.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum ConfigError {
    #[error("not JSON: {0}")]
    Json(String),
    #[error("not a JSON object")]
    NotAnObject,
    #[error(
        "neither `model_type` nor `architectures` names the model's family; known are {}",
        families()
    )]
    NoFamily,
    #[error(
        "unknown model family {name}; known are {}; plan a preset of its size in its place",
        families()
    )]
    UnknownFamily { name: String },
    #[error(
        "a {name} model has parts beside its text model, which has a configuration of its own in `text_config`; write those keys \
         into a config.json{of_type}, or plan a preset of its size{preset}"
    )]
    OfParts {
        name: String,
        /// The `model_type` that the text model needs.
        of_type: String,
        /// The preset that is its size.
        preset: String,
    },
    #[error(
        "`architectures` names {class}, which is no language model: a decoder with a classifier or another head is not planned; \
         its base, {known}, is"
    )]
    OtherHead { class: String, known: String },
    #[error(
        "unknown `model_type` {name}, though `architectures` names {class}; write `model_type: {known}` if the model is one"
    )]
    UnknownType {
        name: String,
        class: String,
        known: &'static str,
    },
    #[error("`{key}`: expected {expected}, found {found}")]
    Value {
        key: String,
        expected: String,
        found: String,
    },
    #[error("`{key}: {found}` is not supported; {known} is")]
    Fixed {
        key: &'static str,
        found: String,
        known: &'static str,
    },
    #[error("`{multiple_key}` ({multiple}) is not a multiple of `{key}` ({number}){hint}")]
    NotAMultiple {
        multiple_key: &'static str,
        multiple: usize,
        key: &'static str,
        number: usize,
        hint: &'static str,
    },
    #[error("`num_attention_heads` ({heads}) times `head_dim` ({head_dim}): expected at most {most}")]
    Heads { heads: usize, head_dim: usize, most: usize },
    #[error(
        "`layer_types`: expected `full_attention` or `sliding_attention` for each of {layers} layers, found {found}"
    )]
    LayerTypes { layers: usize, found: String },
    #[error(
        "`layer_types` names layers with a window, but none is in use: `sliding_window` is null, or \
         `use_sliding_window` is not true"
    )]
    NoWindow,
    #[error("rotary scaling {kind} needs {needs}")]
    Scaling { kind: &'static str, needs: &'static str },
    #[error("`pad_token_id` is not below `vocab_size`")]
    Padding,
}

/// A feature of a model that a stack does not compute.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum Unsupported {
    #[error("`{model}` models are not trained here; {} are", trained.join(", "))]
    Family {
        model: &'static str,
        trained: Vec<&'static str>,
    },
    #[error("its architecture is not supported; {0}ForCausalLM is")]
    Head(&'static str),
    #[error("`{key}: {found}` is not supported; {known} is")]
    Activation {
        key: &'static str,
        found: String,
        known: &'static str,
    },
    #[error("rotary scaling `{0}` is not supported; default, linear, llama3 and longrope are")]
    RopeScaling(String),
    #[error("`partial_rotary_factor` is not supported for this family: the whole head is rotated")]
    PartialRotary,
    #[error(
        "{0} dimensions of a head are rotated (`head_dim` · `partial_rotary_factor`); it must be an even number above 0"
    )]
    RotaryDim(usize),
    #[error("transformers' sdpa has no soft cap of scores, which the model has; write `attn_implementation: eager`")]
    CappedScores,
    #[error(
        "TRL's chunked loss has not been studied with soft caps of logits, which the model has; write `loss: full`"
    )]
    CappedLogits,
    #[error("the checkpoint is quantised already (`quantization_config`); give the original one")]
    Quantized,
    #[error(
        "the checkpoint is quantised already (`quantization_config`), and transformers keeps its format; write `{key}: {has}`"
    )]
    QuantizedTo { key: &'static str, has: &'static str },
    #[error("weights that {0} quantised are not planned; give the original checkpoint, or a preset of its shape")]
    QuantizedBy(String),
}

/// A model that a cell names and that cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum ArchError {
    #[error("unknown model `{name}`: neither a preset nor a directory ({path}){hint}", path = path.display())]
    Unknown { name: String, path: PathBuf, hint: String },
    #[error("model `{0}`: it was not fetched from the hub")]
    NotFetched(String),
    #[error("cannot read {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {error}", path = path.display())]
    Config { path: PathBuf, error: ConfigError },
    #[error("{place}: {error}")]
    Unsupported { place: String, error: Unsupported },
    #[error(
        "`task: {asked}`: the model is for {can}; write `task: {can}`",
        asked = asked.name(),
        can = can.name()
    )]
    Task { asked: Task, can: Task },
    #[error("`num_labels: {asked}`: the checkpoint's classifier has {has} labels; write `num_labels: {has}`")]
    Labels { asked: usize, has: usize },
    #[error(
        "`target_modules: peft`: PEFT chooses no layers in models of type {0}, and fails; write the layers, or `all-linear`"
    )]
    PeftModules(&'static str),
    #[error(
        "`adapter: ia3`: PEFT has no layers of its own for {0}; write `target_modules` and `ia3: {{feedforward_modules: [...]}}`"
    )]
    Ia3Modules(&'static str),
    #[error(
        "`adapter: ln_tuning`: PEFT has no norms of its own for {0}; `rank: 0` with `trainable: ['.*[nN]orm']` trains them all"
    )]
    TunedNorms(&'static str),
    #[error(
        "`adapter: prefix_tuning`: a prefix is not trained in models with a sliding window yet, as {0}; use `prompt_tuning`"
    )]
    PrefixWindow(&'static str),
    #[error("{0}")]
    Adapter(String),
    #[error("`ia3.feedforward_modules`: no layer called `{0}` has an adapter")]
    Feedforward(String),
    #[error("`target_modules`: the model has no linear layer `{name}`; it has {known}")]
    Module { name: String, known: String },
    #[error("`{key}`: both `{}` and `{}` match {module}", patterns[0], patterns[1])]
    TwoPatterns {
        key: String,
        module: String,
        patterns: [String; 2],
    },
    #[error("`trainable`: `{0}` matches no weight of the model")]
    NoWeight(String),
    #[error("`{key}`: {module} is quantised, and only dense weights can be trained")]
    TrainedQuantised { key: &'static str, module: String },
    #[error("`modules_to_save`: the model has no module `{name}`{hint}")]
    NoSaved { name: String, hint: String },
    #[error("`modules_to_save`: PEFT takes {module} for `{name}`, too; write more of the name")]
    SavedToo { name: String, module: String },
    #[error("`modules_to_save`: {0} is trained and saved anyway; leave it out")]
    HeadIsSaved(String),
    #[error("`modules_to_save`: no layer is left for an adapter; `rank: 0` with `trainable` trains without adapters")]
    AllSaved,
    #[error("`exclude_modules`: no layer is left for an adapter; `rank: 0` with `trainable` trains without adapters")]
    AllExcluded,
    #[error("`layers_to_transform`: these blocks have none of `target_modules`, which PEFT refuses, too")]
    NoneAdapted,
    #[error("`layers_to_transform`: the model has no block {asked}; its {blocks} blocks are 0 to {}", blocks - 1)]
    Layer { asked: usize, blocks: usize },
    #[error("`{key}`: `{pattern}` matches no module that can have an adapter")]
    NoModule { key: String, pattern: String },
    #[error(
        "`target_modules`: `{pattern}` also matches {module}, which PEFT gives no adapter; end it in the names of linear layers"
    )]
    NotLinear { pattern: String, module: String },
    #[error("`{pattern}`: the search in {module} takes too many steps; write a simpler expression")]
    LongSearch { pattern: String, module: String },
    #[error("`lora.bias`: {0} no bias, so the key would do nothing; leave it out")]
    NoBias(&'static str),
    #[error("`offload.embeddings`: every table is trained, so none can wait in the host's memory; leave the key out")]
    TrainedTables,
    #[error(
        "`offload.embeddings`: the head has an adapter (`target_modules`), and its product needs the weight whole; leave \
         one of the two out"
    )]
    OffloadedHead,
    #[error(
        "`lora.init_lora_weights`: {0} takes its factors out of the head's weight, which is the embedding's, too; leave \
         lm_head out of `target_modules`, or use `init_lora_weights: default`"
    )]
    TiedStart(&'static str),
    #[error(
        "`offload.weights`: every weight of block {0} is trained, so none can wait in the host's memory; leave it out"
    )]
    TrainedBlock(usize),
    #[error("`offload.weights`: {0}")]
    Blocks(Mistake),
}

fn families() -> String {
    Family::ALL
        .iter()
        .map(|family| family.name())
        .collect::<Vec<_>>()
        .join(", ")
}
