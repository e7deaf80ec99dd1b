//! A cell's keys as a configuration of the torch stack.

use crate::spec::cell::{self, Cell};
use crate::torch::{
    Attention, Backend, BaseDtype, Bitsandbytes, Checkpointing, Configuration, Dtype, Gpu, LoraA, ModelConfig,
    Optimizer, Outputs, Targets, Transformers, Upcast, VersionError, Way, ZeroGrad, gpu as device,
};

impl Configuration {
    /// What `cell` says, for a model of this shape.
    ///
    /// # Errors
    /// Where the release of a library that it names has not been studied with such a model.
    pub fn from_cell(cell: &Cell, model: ModelConfig, gpu: Option<&device::Gpu>) -> Result<Self, VersionError> {
        let compute = dtype(cell.bnb_4bit_compute_dtype);
        let capability = gpu.map_or((8, 0), |gpu| gpu.architecture.capability());
        let mut transformers = match &cell.torch.transformers_version {
            Some(version) => Transformers::of(version, model.family)?,
            None => Transformers::TODAY,
        };
        transformers.use_reentrant = cell.torch.use_reentrant.unwrap_or(transformers.use_reentrant);
        let bitsandbytes = match &cell.torch.bitsandbytes_version {
            Some(version) => Bitsandbytes::of(version)?,
            None => Bitsandbytes::TODAY,
        };
        Ok(Self {
            model,
            dtype: match cell.dtype {
                cell::Dtype::Float32 => BaseDtype::Float32,
                cell::Dtype::Float16 => BaseDtype::Float16,
                cell::Dtype::Bfloat16 => BaseDtype::Bfloat16,
                cell::Dtype::Int8 => BaseDtype::Int8,
                cell::Dtype::Int4 => BaseDtype::Int4,
            },
            torch_dtype: compute,
            rank: cell.rank as u32,
            lora_dropout: cell.lora_dropout,
            lora_a: match cell.lora_fa {
                cell::LoraATraining::Trained => LoraA::Trained,
                cell::LoraATraining::Frozen => LoraA::Frozen,
                cell::LoraATraining::Unstepped => LoraA::Unstepped,
            },
            target_modules: match &cell.target_modules {
                cell::TargetModules::AllLinear => Targets::AllLinear,
                cell::TargetModules::Names(names) => Targets::Names(names.clone()),
            },
            adapter_dtype: dtype(cell.adapter_dtype),
            bnb_4bit_use_double_quant: cell.bnb_4bit_use_double_quant,
            bnb_4bit_compute_dtype: compute,
            attn_implementation: match cell.attn_implementation {
                cell::Attention::Eager => Attention::Eager,
                cell::Attention::Sdpa => Attention::Sdpa,
                cell::Attention::FlashAttention2 => Attention::FlashAttention2,
            },
            sdpa_kernel: None,
            upcast: match cell.upcast {
                cell::Upcast::None => Upcast::None,
                cell::Upcast::Peft => Upcast::Peft,
            },
            autocast: match cell.autocast {
                cell::Autocast::None => None,
                cell::Autocast::Bfloat16 => Some(Dtype::Bfloat16),
                cell::Autocast::Float16 => Some(Dtype::Float16),
            },
            use_cache: cell.torch.use_cache,
            empty_cache_steps: cell.empty_cache_steps as u32,
            gradient_checkpointing: match cell.gradient_checkpointing {
                cell::Checkpointing::None => Checkpointing::None,
                cell::Checkpointing::Full => Checkpointing::All,
                cell::Checkpointing::Every(n) => Checkpointing::Every(n as u32),
            },
            // PEFT asks for it where the model checkpoints.
            enable_input_require_grads: cell.rank > 0 && cell.gradient_checkpointing != cell::Checkpointing::None,
            optim: optimizer(cell),
            max_grad_norm: cell.max_grad_norm,
            outputs: match cell.torch.keep_outputs {
                cell::OutputLifetime::None => Outputs::None,
                cell::OutputLifetime::Step => Outputs::Step,
                cell::OutputLifetime::NextForward => Outputs::NextForward,
            },
            zero_grad: match cell.torch.zero_grad {
                // Nothing but an emptied cache lies between the two.
                cell::ZeroGrad::BeforeForward if cell.empty_cache_steps > 0 => ZeroGrad::BeforeForward,
                _ => ZeroGrad::AfterStep,
            },
            gpu: Gpu { capability },
            transformers,
            bitsandbytes,
            backend: Backend::Cuda,
        })
    }
}

fn optimizer(cell: &Cell) -> Optimizer {
    let bitsandbytes = |bits, is_paged| Optimizer::Bitsandbytes { bits, is_paged };
    match cell.optim {
        // The last two are refused by the spec.
        cell::Optimizer::Adamw | cell::Optimizer::Galore | cell::Optimizer::Rsvd => Optimizer::Adamw(Way::Foreach),
        cell::Optimizer::AdamwTorchFused => Optimizer::Adamw(Way::Fused),
        cell::Optimizer::Sgd => Optimizer::Sgd {
            decays: cell.weight_decay > 0.0,
        },
        cell::Optimizer::Adamw8bit => bitsandbytes(8, false),
        cell::Optimizer::PagedAdamw32bit => bitsandbytes(32, true),
        cell::Optimizer::PagedAdamw8bit => bitsandbytes(8, true),
    }
}

fn dtype(dtype: cell::Dtype) -> Dtype {
    match dtype {
        cell::Dtype::Float32 => Dtype::Float32,
        cell::Dtype::Float16 => Dtype::Float16,
        // Formats of integers are refused by the spec.
        cell::Dtype::Bfloat16 | cell::Dtype::Int8 | cell::Dtype::Int4 => Dtype::Bfloat16,
    }
}
