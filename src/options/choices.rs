//! What the keys take that are a choice of names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    Random,
    Pretrained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    CausalLm,
    SequenceClassification,
}

impl Task {
    /// The name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::CausalLm => "causal_lm",
            Self::SequenceClassification => "sequence_classification",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    Float32,
    Float16,
    Bfloat16,
    Int8,
    Int4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    Candle,
    Torch,
}

/// What happens to LoRA's A; LoRA-FA freezes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoraATraining {
    /// It is trained, as B is.
    #[serde(rename = "none")]
    Trained,
    /// It has no gradients.
    Frozen,
    /// It has gradients, which are computed, clipped and never released; the optimizer leaves it out.
    #[serde(rename = "optimizer")]
    Unstepped,
}

/// The format of mixed precision (`torch.autocast`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Autocast {
    /// Every operation computes in its operands' format.
    None,
    Bfloat16,
    Float16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuantType {
    Nf4,
    Fp4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    Eager,
    Sdpa,
    #[serde(rename = "flash_attention_2")]
    FlashAttention2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Upcast {
    None,
    Peft,
}

/// How long a micro-batch's outputs live: its logits, its key-value cache and its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputLifetime {
    /// Only the loss leaves the forward pass.
    None,
    /// Until the step or the next micro-batch's forward pass ends.
    Step,
    /// Until the next forward pass has replaced them, also across steps.
    NextForward,
}

/// When the last step's gradients are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ZeroGrad {
    BeforeForward,
    AfterStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    MaxLength,
    Longest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    Adamw,
    Galore,
    Rsvd,
    AdamwTorchFused,
    Sgd,
    #[serde(rename = "adamw_8bit")]
    Adamw8bit,
    #[serde(rename = "paged_adamw_32bit")]
    PagedAdamw32bit,
    #[serde(rename = "paged_adamw_8bit")]
    PagedAdamw8bit,
}

impl Optimizer {
    /// Whether its state is of a low rank: our trainer's own.
    pub fn is_low_rank(self) -> bool {
        matches!(self, Self::Galore | Self::Rsvd)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    Epoch,
    Profile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LrScheduler {
    Linear,
    Cosine,
    Constant,
}
