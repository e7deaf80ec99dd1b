//! The options that decide a model: its shape, its weights, and which of them are trained.

use std::fmt::Display;

use super::{
    Adapter, Attention, Autocast, Bias, Dtype, InitLoraWeights, Loss, NamePattern, OffloadedBlocks, Patterns,
    TargetModules, Task, Upcast, Weights, matching,
};

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
    /// Number format of int4's products, and of what it leaves unquantised.
    pub bnb_4bit_compute_dtype: Dtype,
    /// The weights that are cast to float32 before training.
    pub upcast: Upcast,
    /// The format of mixed precision.
    pub autocast: Autocast,
    /// How attention is computed.
    pub attn_implementation: Attention,
    /// How the causal loss is computed in training.
    pub loss: Loss,
    /// The adapters; `None` trains weights.
    pub lora: Option<LoraOptions>,
    /// The weights that are trained without adapters; all without patterns.
    pub trainable: Option<Vec<NamePattern>>,
    /// The blocks whose frozen weights wait in the host's memory.
    pub offloaded_blocks: Option<OffloadedBlocks>,
    /// True if the frozen tables of embedding and head wait there.
    pub offloads_embeddings: bool,
    /// The most tokens that a sample has.
    pub max_seq_length: usize,
    /// Random weights, adapters and dropout masks follow from it.
    pub seed: u64,
}

impl ModelOptions {
    /// The format of hidden states, and of the weights that are not quantised.
    pub fn hidden_dtype(&self) -> Dtype {
        match (self.upcast, self.dtype) {
            (Upcast::Peft | Upcast::Trl, _) => Dtype::Float32,
            (Upcast::None, Dtype::Int4) => self.bnb_4bit_compute_dtype,
            (Upcast::None, Dtype::Int8) => Dtype::Bfloat16,
            (Upcast::None, dtype) => dtype,
        }
    }

    /// The format that quantised values are rounded to for products.
    pub fn products_dtype(&self) -> Dtype {
        match self.dtype {
            Dtype::Int4 => self.bnb_4bit_compute_dtype,
            _ => Dtype::Bfloat16,
        }
    }

    /// True if the weight `part` of the module called `module` is trained. A head that adapters train whole is not meant, nor
    /// a bias that is trained because its layer has an adapter.
    pub fn trains(&self, module: &impl Display, part: &str) -> bool {
        if let Some(lora) = &self.lora {
            return part == "bias" && lora.bias == Bias::All;
        }
        self.trainable.as_ref().is_none_or(|patterns| {
            let names = [module.to_string(), format!("{module}.{part}")];
            patterns
                .iter()
                .any(|pattern| names.iter().any(|name| pattern.matches(name)))
        })
    }

    /// Bytes of an element that a layer gives.
    pub fn bytes_of_outputs(&self) -> u64 {
        let is_wide = self.hidden_dtype() == Dtype::Float32;
        if is_wide && self.autocast == Autocast::None {
            4
        } else {
            2
        }
    }
}

/// True if `block` is one of `blocks`, or there is no such list.
pub fn is_in(blocks: Option<&[usize]>, block: Option<usize>) -> bool {
    blocks.is_none_or(|blocks| block.is_some_and(|block| blocks.contains(&block)))
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
    /// The blocks in which they get one; all, and what lies outside, without.
    pub layers_to_transform: Option<Vec<usize>>,
    /// Number format of the factors, their gradients and their optimizer states.
    pub dtype: Dtype,
    /// False if A is frozen (LoRA-FA).
    pub trains_a: bool,
    /// The adapter's product is scaled by `alpha / √rank` instead.
    pub use_rslora: bool,
    /// The start values of the factors.
    pub init: InitLoraWeights,
    /// Other ranks of some modules.
    pub rank_pattern: Patterns<usize>,
    /// Another alpha of some modules.
    pub alpha_pattern: Patterns<f64>,
    /// The learning rate of B, and of trained vectors, over that of A.
    pub lr_ratio: f64,
    /// The biases that are trained.
    pub bias: Bias,
}

impl LoraOptions {
    /// LoRA on every linear layer, with `scale = alpha / rank` and no options of its own.
    pub fn new(rank: usize, alpha: f64) -> Self {
        Self {
            adapter: Adapter::Lora,
            rank,
            alpha,
            dropout: 0.0,
            target_modules: TargetModules::AllLinear,
            layers_to_transform: None,
            dtype: Dtype::Float32,
            trains_a: true,
            use_rslora: false,
            init: InitLoraWeights::Default,
            rank_pattern: Patterns::new(),
            alpha_pattern: Patterns::new(),
            lr_ratio: 1.0,
            bias: Bias::None,
        }
    }

    /// True if the linear layer called `module` in full, in this block if any, gets an adapter.
    pub fn adapts(&self, module: &str, block: Option<usize>) -> bool {
        is_in(self.layers_to_transform.as_deref(), block) && self.target_modules.contains(module)
    }

    /// The rank of the module called `module` in full.
    pub fn rank_of(&self, module: &str) -> usize {
        matching(&self.rank_pattern, module).unwrap_or(self.rank)
    }

    /// The factor of the product of that module.
    pub fn scale_of(&self, module: &str) -> f64 {
        let rank = self.rank_of(module) as f64;
        let divisor = if self.use_rslora { rank.sqrt() } else { rank };
        matching(&self.alpha_pattern, module).unwrap_or(self.alpha) / divisor
    }
}
