//! Keys whose value is one of a few words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The origin of the base weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// Drawn from the seed.
    Random,
    /// Read from a checkpoint.
    Pretrained,
}

/// The objective of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Predict each token from those before it.
    CausalLm,
    /// Predict a sample's label.
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

/// The number format of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary16.
    Float16,
    /// binary32 with 8 bits of significand.
    Bfloat16,
    /// Row-wise absmax, as in LLM.int8().
    Int8,
    /// 4-bit codes with a scale for each block, as in QLoRA.
    Int4,
}

impl Dtype {
    /// True for integers with scales, false for floating-point numbers.
    pub fn is_quantised(self) -> bool {
        match self {
            Self::Float32 | Self::Float16 | Self::Bfloat16 => false,
            Self::Int8 | Self::Int4 => true,
        }
    }

    /// Bits of a number, without scales.
    pub fn bits(self) -> u32 {
        match self {
            Self::Float32 => 32,
            Self::Float16 | Self::Bfloat16 => 16,
            Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }
}

/// A number format of floating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FloatDtype {
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary16.
    Float16,
    /// binary32 with 8 bits of significand.
    Bfloat16,
}

impl FloatDtype {
    /// Bits of a number.
    pub fn bits(self) -> u32 {
        Dtype::from(self).bits()
    }
}

impl From<FloatDtype> for Dtype {
    fn from(dtype: FloatDtype) -> Self {
        match dtype {
            FloatDtype::Float32 => Self::Float32,
            FloatDtype::Float16 => Self::Float16,
            FloatDtype::Bfloat16 => Self::Bfloat16,
        }
    }
}

/// The software whose memory a cell describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// Our trainer.
    Candle,
    /// PyTorch with transformers, PEFT and bitsandbytes on a GPU.
    Torch,
}

impl Stack {
    /// The name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Candle => "candle",
            Self::Torch => "torch",
        }
    }
}

/// The biases that are trained beside adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bias {
    /// No bias.
    #[default]
    None,
    /// All biases of the model.
    All,
    /// The biases of layers that have an adapter.
    LoraOnly,
}

/// The training of LoRA's A; LoRA-FA freezes it.
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
    /// Products are computed in bfloat16.
    Bfloat16,
    /// Products are computed in float16.
    Float16,
}

/// Elements that share a scale of int4 by default: bitsandbytes' on NVIDIA's GPUs, which transformers leaves as it is.
pub const DEFAULT_BLOCK_SIZE: usize = 64;

/// The sizes that bitsandbytes has.
pub const BLOCK_SIZES: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];

/// The 4-bit data type of int4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuantType {
    /// 4-bit NormalFloat.
    Nf4,
    /// 4-bit floating point.
    Fp4,
}

impl QuantType {
    /// The name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nf4 => "nf4",
            Self::Fp4 => "fp4",
        }
    }
}

/// The implementation of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// One operation after another; holds the score matrix.
    Eager,
    /// `scaled_dot_product_attention`: one kernel, which never holds the score matrix.
    Sdpa,
    /// The flash-attn package.
    #[serde(rename = "flash_attention_2")]
    FlashAttention2,
}

/// The weights that are cast to float32 before training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Upcast {
    /// No weight.
    None,
    /// All that are not quantised, as in PEFT's `prepare_model_for_kbit_training`.
    Peft,
    /// All that are not quantised. TRL's `SFTTrainer` then casts the embeddings and the head to bfloat16
    /// (`peft_module_casting_to_bf16`), with int4 and autocast to bfloat16. TRL 0.7.5 to 0.25.
    Trl,
}

/// The scale of the loss in the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossScaling {
    /// It is not scaled.
    None,
    /// By a factor that follows the gradients, as `torch.amp.GradScaler` has it.
    Dynamic,
}

/// The causal loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// transformers', of the logits of all tokens at once.
    Full,
    /// TRL's `loss_type: chunked_nll` of 1.7 to 1.14: 256 tokens after another, whose logits are computed again in the
    /// backward pass.
    Chunked,
    /// TRL's since 1.15: tiles of 4,096 tokens and 32,768 words.
    Tiled,
    /// Liger's fused linear cross-entropy, without its other kernels.
    Liger,
    /// Apple's cut cross-entropy.
    CutCrossEntropy,
}

impl Loss {
    /// True if the logits of all tokens are never held.
    pub fn is_partial(self) -> bool {
        self != Self::Full
    }

    /// True for those of our trainer; the others are fused kernels of PyTorch's stack.
    pub fn is_of_trainer(self) -> bool {
        matches!(self, Self::Full | Self::Chunked)
    }
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
    /// At the beginning of the next step.
    BeforeForward,
    /// Right after the optimizer's step.
    AfterStep,
    /// Never: they are filled with zeros.
    Never,
}

/// The length that the samples of a micro-batch are padded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// `max_seq_length`.
    MaxLength,
    /// The longest sample of the micro-batch.
    Longest,
}

/// The part of training that the memory figures describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The whole training.
    Epoch,
    /// The micro-batches of one step after an optimizer step, by component.
    Profile,
}

/// How several processes share the work of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Distributed {
    /// `DistributedDataParallel`: each holds the whole model.
    Ddp,
    /// `FullyShardedDataParallel`, or `fully_shard`: each holds a part of every weight.
    Fsdp,
    /// DeepSpeed's ZeRO: each holds a part of what its stage says.
    Deepspeed,
}

/// The place of what ZeRO keeps for the optimizer, or of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffloadDevice {
    /// The GPU.
    None,
    /// The CPU.
    Cpu,
    /// A disk, which is not planned: known so that its error can say so.
    #[schemars(skip)]
    Nvme,
}

/// What FSDP shares among the ranks: `ShardingStrategy` of PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardingStrategy {
    /// Parameters, gradients and states; a unit is gathered for its forward and for its backward pass.
    FullShard,
    /// The same, but a unit that is gathered stays until its backward pass is done.
    ShardGradOp,
    /// Nothing: all is as with DDP, but flat.
    NoShard,
    /// As `full_shard` among the GPUs of a machine; all machines hold the same.
    HybridShard,
    /// As `shard_grad_op` among the GPUs of a machine.
    HybridShardZero2,
}

impl ShardingStrategy {
    /// True if a unit is let go after its forward pass.
    pub fn reshards_after_forward(self) -> bool {
        matches!(self, Self::FullShard | Self::HybridShard)
    }

    /// True if the GPUs of one machine share, and machines do not.
    pub fn is_hybrid(self) -> bool {
        matches!(self, Self::HybridShard | Self::HybridShardZero2)
    }
}

/// The modules that FSDP makes units of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AutoWrapPolicy {
    /// The blocks, and the rest is one.
    TransformerBasedWrap,
    /// The whole model is one.
    NoWrap,
}

/// When FSDP gathers the next unit of the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackwardPrefetch {
    /// Before the gradients of the current unit are computed.
    BackwardPre,
    /// After the current unit is let go.
    BackwardPost,
    /// When it is its turn.
    NoPrefetch,
}
