//! The options that decide a model: its shape, its weights, and which of them are trained.

use super::{Adapter, Attention, Dtype, Loss, OffloadedBlocks, TargetModules, Task, Weights};

/// The number of labels by default, as in transformers.
pub const DEFAULT_LABELS: usize = 2;

/// A model as one cell asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOptions {
    /// A preset, or a directory in Hugging Face's layout.
    pub name: String,
    /// The origin of the weights.
    pub weights: Weights,
    /// The objective.
    pub task: Task,
    /// Labels of a sequence classifier.
    pub num_labels: usize,
    /// Number format of the base weights.
    pub dtype: Dtype,
    /// Quantise NF4's scales a second time.
    pub bnb_4bit_use_double_quant: bool,
    /// How attention is computed.
    pub attn_implementation: Attention,
    /// How the causal loss is computed in training.
    pub loss: Loss,
    /// The adapters; `None` trains every weight.
    pub lora: Option<LoraOptions>,
    /// The blocks whose frozen weights wait in the host's memory.
    pub offloaded_blocks: Option<OffloadedBlocks>,
    /// True if the frozen tables of embedding and head wait there.
    pub offloads_embeddings: bool,
    /// The most tokens that a sample has.
    pub max_seq_length: usize,
    /// Random weights, adapters and dropout masks follow from it.
    pub seed: u64,
}

/// Low-rank adapters.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraOptions {
    /// The method.
    pub adapter: Adapter,
    /// Rank of the two factors; at least 1.
    pub rank: usize,
    /// The adapter's product is scaled by `alpha / rank`.
    pub alpha: f64,
    /// Probability of dropout on the adapter's input.
    pub dropout: f64,
    /// The linear layers that get an adapter.
    pub target_modules: TargetModules,
}
