//! One cell: a full configuration of one training run. Every key has a default; a key does what it says or is an error.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::options::ByteSize;

mod allocator;
mod check;
mod id;
mod options;
mod presets;
mod stacks;
mod torch;

pub use crate::options::{
    AllocatorBackend, Attention, Autocast, Checkpointing, Data, DataFile, DataFormat, Device, Dtype, ENCODER_MODULES,
    FUSED_MODULES, InstructionSet, InstructionSetChoice, Lengths, LoraATraining, LrScheduler, MODULES, Measure,
    Optimizer, OutputLifetime, Padding, QuantType, Stack, Synthetic, TargetModules, Task, Upcast, Weights, ZeroGrad,
};
pub use allocator::Allocator;
pub use check::Invalid;
pub use presets::{PLANNED_PRESETS, PRESETS};
pub use stacks::stacks;
pub use torch::Torch;

use allocator::Variable;
use presets::{ENCODER_PRESETS, presets};

/// `num_labels` where it is not given, as in transformers.
const DEFAULT_LABELS: usize = 2;

/// Optimizer steps where neither `max_steps` nor `num_train_epochs` is given.
const DEFAULT_STEPS: usize = 10;

/// galore-torch and transformers have 128 for galore, which is more than most adapters' ranks and small models' sides.
const DEFAULT_OPTIM_RANK: usize = 4;
/// The two as in transformers' `galore_adamw`.
const DEFAULT_PROJ_GAP: usize = 200;
const DEFAULT_GALORE_SCALE: f64 = 0.25;

/// A full configuration. Field names are the spec's keys and keep the names of transformers' `TrainingArguments`,
/// PEFT's `LoraConfig` and bitsandbytes' `BitsAndBytesConfig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = stacks::mark)]
pub struct Cell {
    /// A preset (tiny, smollm2-135m, smollm2-360m, tinyllama-1.1b, llama-3.2-1b, llama-3.2-3b, distilbert-base, bert-base;
    /// of stack: torch those of many published models more) or a directory in Hugging Face's layout.
    #[schemars(extend("anyOf" = [{ "enum": presets().collect::<Vec<_>>() }, { "type": "string" }]))]
    pub model: String,
    /// Where the weights come from; default: random for a preset, pretrained for a directory.
    pub weights: Option<Weights>,
    /// What is trained: causal_lm (a decoder predicts each token from those before it) or sequence_classification (an
    /// encoder, DistilBERT or BERT, predicts a sample's label).
    pub task: Task,
    /// Labels of sequence_classification.
    #[schemars(range(min = 2))]
    pub num_labels: usize,
    /// Number format of the base weights. int4 is NF4; int8 is row-wise absmax; both keep hidden states in bfloat16.
    pub dtype: Dtype,
    /// Whose memory is meant: our trainer's (candle), or that of transformers, PEFT and bitsandbytes on a GPU (torch), which
    /// is planned and not run.
    pub stack: Stack,
    /// The GPU that stack: torch is planned for, such as t4 or rtx-3090: its memory, what a process takes of it beside
    /// tensors, and the kernels that its generation has. Default: one of unlimited memory that computes in bfloat16.
    pub gpu: Option<String>,
    /// PyTorch's training loop and the releases of its libraries, for stack: torch.
    pub torch: Torch,

    /// Rank of the LoRA adapters; 0 trains every weight.
    pub rank: usize,
    /// LoRA's alpha (the adapter's product is scaled by alpha / rank); default: twice the rank.
    pub lora_alpha: Option<f64>,
    /// Dropout on the adapter's input.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lora_dropout: f64,
    /// Which linear layers get an adapter: all-linear (every one but the head) or a list such as [q_proj, v_proj]; of an
    /// encoder, whose new head is trained beside them, such as [q_lin, v_lin] (DistilBERT) or [query, value] (BERT).
    pub target_modules: TargetModules,
    /// What becomes of A where B alone is trained, as LoRA-FA does: none (both are trained), frozen, or optimizer (it is left
    /// out of the optimizer and wants gradients nevertheless, as all adapters do again once PEFT's disable_adapter was used);
    /// for stack: torch.
    pub lora_fa: LoraATraining,
    /// Number format of the adapters.
    pub adapter_dtype: Dtype,

    /// 4-bit data type of int4.
    pub bnb_4bit_quant_type: QuantType,
    /// Quantise int4's scales a second time.
    pub bnb_4bit_use_double_quant: bool,
    /// Number format that int4's products are computed from; of stack: torch also what int4 and int8 leave unquantised.
    pub bnb_4bit_compute_dtype: Dtype,
    /// How attention is computed; sdpa never holds the score matrix.
    pub attn_implementation: Attention,
    /// What is cast to float32 before training: none, or what PEFT's k-bit preparation casts.
    pub upcast: Upcast,
    /// The format of mixed precision by torch.autocast: none, bfloat16 or float16.
    pub autocast: Autocast,
    /// Give the allocator's cache back every n steps; 0 never.
    pub empty_cache_steps: usize,

    /// Samples in a micro-batch.
    #[schemars(range(min = 1))]
    pub batch_size: usize,
    /// Micro-batches whose gradients are summed before an optimizer step.
    #[schemars(range(min = 1))]
    pub gradient_accumulation_steps: usize,
    /// Which blocks recompute their forward pass in the backward pass.
    pub gradient_checkpointing: Checkpointing,
    /// Samples are cut to this many tokens.
    #[schemars(range(min = 2))]
    pub max_seq_length: usize,
    /// Pad each micro-batch to max_seq_length, or to its longest sample.
    pub padding: Padding,

    /// Optimizer steps; default: 10 where num_train_epochs is not given either.
    #[schemars(range(min = 1))]
    pub max_steps: Option<usize>,
    /// Passes over the training data; excludes max_steps.
    pub num_train_epochs: Option<f64>,
    /// The optimizer: adamw; galore (Adam in a basis of the gradient's leading singular vectors, on a matrix's shorter
    /// side); rsvd (the same on its rows, found by randomised SVD). Both keep matrices with more rows and columns than
    /// optim_rank so, embeddings included, and are adamw for all else. Of stack: torch adamw (PyTorch's), adamw_torch_fused,
    /// sgd (without momentum), and bitsandbytes' adamw_8bit, paged_adamw_32bit and paged_adamw_8bit.
    pub optim: Optimizer,
    /// Rank of galore's and rsvd's optimizer state; default: 4.
    #[schemars(range(min = 1))]
    pub optim_rank: Option<usize>,
    /// Steps after which galore and rsvd make their basis anew; default: 200.
    #[schemars(range(min = 1))]
    pub update_proj_gap: Option<usize>,
    /// What galore's step is multiplied with when it leaves the basis; default: 0.25.
    pub galore_scale: Option<f64>,
    /// Peak learning rate.
    #[schemars(range(min = 0.0))]
    pub learning_rate: f64,
    /// How the learning rate moves after the warm-up.
    pub lr_scheduler_type: LrScheduler,
    /// Part of the steps over which the learning rate rises linearly from 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub warmup_ratio: f64,
    /// Decoupled weight decay.
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// AdamW's decay of the first moment.
    pub adam_beta1: f64,
    /// AdamW's decay of the second moment.
    pub adam_beta2: f64,
    /// AdamW's denominator floor.
    pub adam_epsilon: f64,
    /// Gradients are scaled down to this global L2 norm; 0 switches clipping off.
    #[schemars(range(min = 0.0))]
    pub max_grad_norm: f64,
    /// Everything random follows from it: weights, adapter, order of the data, dropout.
    pub seed: u64,

    /// What is trained on: synthetic, sample, {synthetic: {lengths, samples}} or {path, column, label_column, format}.
    pub data: Data,
    /// Part of the data that is held out; its loss after training is loss_eval.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub eval_fraction: f64,

    /// What the memory figures are of: epoch is the whole training, its highest point above all; profile is the forward and
    /// backward pass of one micro-batch, by component, after one optimizer step that made the optimizer's state.
    pub measure: Measure,

    /// cpu or cuda:N.
    #[schemars(extend("pattern" = "^(cpu|cuda:(0|[1-9][0-9]*))$"))]
    pub device: String,
    /// Threads the trainer computes with; default: one for each available core.
    #[schemars(range(min = 1, max = 512))]
    pub threads: Option<usize>,
    /// The instructions of the trainer's kernels: auto (the best that the CPU has), portable, avx2, avx512, avx512_bf16 or
    /// amx, each with those before it. It does not govern candle's own operations, which take what the CPU has.
    pub instruction_set: InstructionSetChoice,
    /// Budget on live tensor bytes, on the cpu only so far; a request past it ends the cell as out of memory.
    pub device_memory: Option<ByteSize>,
    /// Environment variables of the cell's process; null leaves one unset.
    #[schemars(with = "BTreeMap<String, Variable>")]
    pub env: BTreeMap<String, Option<String>>,
    /// The allocator of the cell's process.
    pub allocator: Allocator,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            model: "smollm2-135m".into(),
            weights: None,
            task: Task::CausalLm,
            num_labels: DEFAULT_LABELS,
            dtype: Dtype::Int4,
            stack: Stack::Candle,
            gpu: None,
            torch: Torch::default(),
            rank: 16,
            lora_alpha: None,
            lora_dropout: 0.0,
            target_modules: TargetModules::AllLinear,
            lora_fa: LoraATraining::Trained,
            adapter_dtype: Dtype::Float32,
            bnb_4bit_quant_type: QuantType::Nf4,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            attn_implementation: Attention::Sdpa,
            upcast: Upcast::None,
            autocast: Autocast::None,
            empty_cache_steps: 0,
            batch_size: 1,
            gradient_accumulation_steps: 1,
            gradient_checkpointing: Checkpointing::None,
            max_seq_length: 128,
            padding: Padding::MaxLength,
            max_steps: None,
            num_train_epochs: None,
            optim: Optimizer::Adamw,
            optim_rank: None,
            update_proj_gap: None,
            galore_scale: None,
            learning_rate: 1e-4,
            lr_scheduler_type: LrScheduler::Linear,
            warmup_ratio: 0.0,
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            max_grad_norm: 1.0,
            seed: 0,
            data: Data::Synthetic(Synthetic::default()),
            eval_fraction: 0.0,
            measure: Measure::Epoch,
            device: "cpu".into(),
            threads: None,
            instruction_set: InstructionSetChoice::Auto,
            device_memory: None,
            env: BTreeMap::new(),
            allocator: Allocator::default(),
        }
    }
}

/// What the keys that may be left out come to.
impl Cell {
    /// Whether the model is one of [`PRESETS`] or [`PLANNED_PRESETS`].
    pub fn is_preset(&self) -> bool {
        presets().any(|name| name == self.model)
    }

    /// Whether the model is a preset of an encoder.
    fn is_encoder_preset(&self) -> bool {
        ENCODER_PRESETS.contains(&self.model.as_str())
    }

    /// Where the weights come from.
    pub fn weights(&self) -> Weights {
        self.weights.unwrap_or(self.default_weights())
    }

    fn default_weights(&self) -> Weights {
        if self.is_preset() {
            Weights::Random
        } else {
            Weights::Pretrained
        }
    }

    /// LoRA's alpha.
    pub fn lora_alpha(&self) -> f64 {
        self.lora_alpha.unwrap_or(self.default_alpha())
    }

    fn default_alpha(&self) -> f64 {
        2.0 * self.rank as f64
    }

    /// Rank of a low-rank optimizer's state.
    pub fn optim_rank(&self) -> usize {
        self.optim_rank.unwrap_or(DEFAULT_OPTIM_RANK)
    }

    /// Steps after which a low-rank optimizer's basis is made anew.
    pub fn update_proj_gap(&self) -> usize {
        self.update_proj_gap.unwrap_or(DEFAULT_PROJ_GAP)
    }

    /// What galore's step is multiplied with when it leaves the basis.
    pub fn galore_scale(&self) -> f64 {
        self.galore_scale.unwrap_or(DEFAULT_GALORE_SCALE)
    }

    /// Optimizer steps; none where `num_train_epochs` says how long. A profile has one.
    pub fn max_steps(&self) -> Option<usize> {
        if self.measure == Measure::Profile {
            return Some(1);
        }
        match (self.max_steps, self.num_train_epochs) {
            (Some(steps), _) => Some(steps),
            (None, None) => Some(DEFAULT_STEPS),
            (None, Some(_)) => None,
        }
    }

    /// The device; `None` if its text does not name one (see [`Cell::validate`]).
    pub fn device(&self) -> Option<Device> {
        Device::named(&self.device)
    }

    /// The allocator of the cell's process.
    pub fn backend(&self) -> AllocatorBackend {
        self.allocator.backend.unwrap_or(AllocatorBackend::DEFAULT)
    }

    /// The environment that the cell's process is given on top of its parent's: `env` and `allocator.env`; none unsets.
    pub fn environment(&self) -> BTreeMap<&str, Option<&str>> {
        let variables = self.env.iter().chain(&self.allocator.env);
        variables
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect()
    }
}
