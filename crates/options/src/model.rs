//! The options that decide a model: its shape, its weights, and which of them are trained.

use std::fmt::Display;

use super::{
    AdapterOptions, Attention, Autocast, Bias, Dtype, Loss, NamePattern, OffloadedBlocks, QuantType, Task, Upcast,
    Weights,
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
    /// The values of 4-bit codes.
    pub bnb_4bit_quant_type: QuantType,
    /// Elements that share a scale of int4.
    pub bnb_4bit_blocksize: usize,
    /// Quantise int4's scales a second time.
    pub bnb_4bit_use_double_quant: bool,
    /// Number format of int4's products, and of what it leaves unquantised.
    pub bnb_4bit_compute_dtype: Dtype,
    /// The least magnitude of an activation that int8's products leave out (LLM.int8()); `None` quantises weights
    /// alone.
    pub llm_int8_threshold: Option<f32>,
    /// The weights that are cast to float32 before training.
    pub upcast: Upcast,
    /// The format of mixed precision.
    pub autocast: Autocast,
    /// How attention is computed.
    pub attn_implementation: Attention,
    /// How the causal loss is computed in training.
    pub loss: Loss,
    /// The adapters; `None` trains weights.
    pub adapter: Option<AdapterOptions>,
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
    /// The options without those that neither the model's shape nor a check of it reads.
    pub fn of_any_length(&self) -> Self {
        Self {
            max_seq_length: 0,
            seed: 0,
            ..self.clone()
        }
    }

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

    /// True if the weight `part` of the module called `module` is trained. A classifier's head, which adapters always
    /// train whole, is not meant, nor a bias that is trained because its layer has an adapter.
    pub fn trains(&self, module: &impl Display, part: &str) -> bool {
        if let Some(adapter) = &self.adapter {
            return part == "bias" && adapter.bias() == Bias::All || adapter.saves_whole(&module.to_string());
        }
        is_trainable(self.trainable.as_deref(), module, part)
    }

    /// Virtual tokens before each sequence, which have positions.
    pub fn virtual_tokens(&self) -> usize {
        self.adapter.as_ref().map_or(0, AdapterOptions::virtual_tokens)
    }

    /// Those of them that go through the blocks as tokens do.
    pub fn prompt_tokens(&self) -> usize {
        self.adapter.as_ref().map_or(0, AdapterOptions::prompt_tokens)
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

/// True if the weight `part` of the module called `module` is among those that `trainable` names, which are all without
/// patterns.
pub fn is_trainable(trainable: Option<&[NamePattern]>, module: &(impl Display + ?Sized), part: &str) -> bool {
    trainable.is_none_or(|patterns| {
        let names = [module.to_string(), format!("{module}.{part}")];
        patterns
            .iter()
            .any(|pattern| names.iter().any(|name| pattern.matches(name)))
    })
}
