//! `adapter_config.json` of LoRA and DoRA.

use options::{Bias, InitLoraWeights, LoraOptions, Patterns, matching};
use serde::{Deserialize, Serialize};

use super::formats::{LORA_A, LORA_B, MAGNITUDE, SavedTensor};

/// The keys of PEFT's `LoraConfig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoraConfig {
    /// Rank of the factors.
    pub r: usize,
    /// The product of the factors is scaled by `lora_alpha / r`.
    pub lora_alpha: f64,
    /// Dropout on the adapter's input while it was trained.
    pub lora_dropout: f64,
    /// DoRA in place of LoRA.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) use_dora: bool,
    /// The product is scaled by `lora_alpha / √r`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub use_rslora: bool,
    /// The start values of the factors. PEFT takes those of PiSSA and OLoRA out of the weight again when it loads the
    /// adapter.
    pub init_lora_weights: Init,
    /// Other ranks of some modules.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub rank_pattern: Patterns<usize>,
    /// Another alpha of some modules.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub alpha_pattern: Patterns<f64>,
    /// The biases that are saved with the adapters.
    pub bias: Bias,
    /// PEFT's mark of weights that are stored the other way round.
    pub(super) fan_in_fan_out: bool,
}

/// PEFT's `init_lora_weights`: a word, or true for the default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected true, gaussian, pissa or olora")]
pub enum Init {
    /// The default, if true.
    Usual(bool),
    /// A named one.
    Named(InitLoraWeights),
}

impl Default for Init {
    fn default() -> Self {
        Self::Usual(true)
    }
}

impl From<InitLoraWeights> for Init {
    fn from(init: InitLoraWeights) -> Self {
        match init {
            InitLoraWeights::Default => Self::Usual(true),
            named => Self::Named(named),
        }
    }
}

impl Init {
    /// The start values; PEFT's `false` has none of its own.
    pub fn init(self) -> InitLoraWeights {
        match self {
            Self::Usual(_) => InitLoraWeights::Default,
            Self::Named(named) => named,
        }
    }
}

/// PEFT's defaults.
impl Default for LoraConfig {
    fn default() -> Self {
        Self::new(&LoraOptions::new(8, 8.0), false)
    }
}

impl LoraConfig {
    pub(super) fn new(lora: &LoraOptions, use_dora: bool) -> Self {
        Self {
            r: lora.rank,
            lora_alpha: lora.alpha,
            lora_dropout: lora.dropout,
            use_dora,
            use_rslora: lora.use_rslora,
            init_lora_weights: lora.init.into(),
            rank_pattern: lora.rank_pattern.clone(),
            alpha_pattern: lora.alpha_pattern.clone(),
            bias: lora.bias,
            fan_in_fan_out: false,
        }
    }

    /// The rank of a module's factors.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        matching(&self.rank_pattern, module).unwrap_or(self.r)
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        match self.use_dora {
            true => &[A, B, M],
            false => &[A, B],
        }
    }
}

const A: SavedTensor = SavedTensor {
    name: LORA_A,
    dims: 2,
    rank_at: Some(0),
};
const B: SavedTensor = SavedTensor {
    name: LORA_B,
    dims: 2,
    rank_at: Some(1),
};
const M: SavedTensor = SavedTensor {
    name: MAGNITUDE,
    dims: 1,
    rank_at: None,
};
