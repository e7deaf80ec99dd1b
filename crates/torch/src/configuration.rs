//! The configuration of a training run on PyTorch's stack.

use arch::ModelConfig;
use options::{
    self, AdapterOptions, Attention, Autocast, BackwardPrefetch, Checkpointing, Generation, LoraATraining, Loss,
    NamePattern, Optimizer, OutputLifetime, ShardingStrategy, Upcast, ZeroGrad, is_trainable,
};

use super::dtype::Dtype;
use super::gpu::ComputeCapability;
use super::versions::{Bitsandbytes, Deepspeed, Peft, Pytorch, Transformers};

/// The kernels whose memory is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// PyTorch's CPU kernels on fake tensors, where nothing is added in place; for comparisons.
    Cpu,
    /// PyTorch's CUDA kernels.
    Cuda,
}

/// The shape of a micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicroBatchShape {
    /// Samples.
    pub batch: u32,
    /// Tokens a sample, padding included.
    pub len: u32,
    /// True if a sample is shorter than `len`, so that the model gets a mask.
    pub padded: bool,
    /// Samples that the only row has one after the other, apart from each other by their starts (TRL's padding-free
    /// batches); 0 if each row is one text.
    pub apart: u32,
    /// Tokens without padding, if attention takes the padding out; else 0.
    pub unpadded: u32,
}

/// How `DistributedDataParallel` is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ddp {
    /// It looks for parameters that a step does not use, for which it copies the outputs.
    pub find_unused_parameters: bool,
    /// The least size of all buckets but the last, in MiB; `None` for PyTorch's, of which the first is smaller.
    pub bucket_cap_mb: Option<u32>,
    /// Gradients are parts of the buckets.
    pub gradient_as_bucket_view: bool,
}

/// How `FullyShardedDataParallel` is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fsdp {
    /// FSDP2 (`fully_shard`), which shares each parameter by itself.
    pub per_parameter: bool,
    /// The ranks that a unit is shared among.
    pub ranks: u64,
    /// What they share.
    pub strategy: ShardingStrategy,
    /// Blocks are units of their own, and with LoRA each factor (PEFT's `fsdp_auto_wrap_policy`); else the model is one.
    pub wraps_blocks: bool,
    /// When the next unit of the backward pass is gathered.
    pub backward_prefetch: BackwardPrefetch,
    /// The next unit of the forward pass is gathered before the current one is computed.
    pub forward_prefetch: bool,
    /// The CPU waits for the last unit but one to be let go before another is gathered.
    pub limit_all_gathers: bool,
    /// Shards, their gradients and states are on the CPU.
    pub offload_params: bool,
    /// FSDP1's optimizer sees each parameter's part of a shard, and not the shard.
    pub use_orig_params: bool,
    /// The format that units are gathered and their gradients reduced in; `None` for their own.
    pub param_dtype: Option<Dtype>,
    /// Accelerate makes the shards of what is trained float32, as it does with mixed precision.
    pub upcasts: bool,
    /// Checkpoints are within units, whose hooks are not run again with them.
    pub checkpoints_within: bool,
    /// The CPU is so far ahead of the GPU that what another stream uses stays reserved until the CPU waits.
    pub cpu_leads: bool,
}

impl Fsdp {
    /// True if the gradients are clipped by FSDP1's own function, which it has where something is shared.
    pub(super) fn clips_shards(&self) -> bool {
        !self.per_parameter && self.strategy != ShardingStrategy::NoShard
    }
}

/// What ZeRO keeps on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// Its memory there is pinned, which PyTorch's allocator of the host rounds up to a power of two.
    pub pinned: bool,
}

/// How DeepSpeed's ZeRO shares a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zero {
    /// What is shared: with 1 the optimizer's states, with 2 gradients too, with 3 parameters too.
    pub stage: u8,
    /// The ranks that share; one may be alone.
    pub ranks: u64,
    /// The rank that is traced, for comparisons; `None` for the one whose share has parts of the most parameters. With stage 3
    /// all are alike.
    pub rank: Option<u64>,
    /// The master weights and the optimizer's states are on the CPU.
    pub offload_optimizer: Option<Offload>,
    /// A rank's parts of the parameters are on the CPU.
    pub offload_param: Option<Offload>,
    /// Another stream reduces gradients, and gathers parameters.
    pub overlap_comm: bool,
    /// Gradients are copied into a bucket before they are reduced.
    pub contiguous_gradients: bool,
    /// A bucket is reduced slice by slice, each to the rank that it belongs to.
    pub reduce_scatter: bool,
    /// With stage 1 and 2, parameters lie in the flat tensor in turn, so that ranks reduce in turn.
    pub round_robin_gradients: bool,
    /// Elements of a bucket of gradients.
    pub reduce_bucket_size: u64,
    /// Elements of a rank's part that the optimizer of stage 3 steps at once.
    pub sub_group_size: u64,
    /// Elements that stage 3 gathers ahead.
    pub prefetch_bucket_size: u64,
    /// Parameters of as many elements stay whole with stage 3.
    pub param_persistence_threshold: u64,
    /// Elements that stay whole at most.
    pub model_persistence_threshold: u64,
    /// Elements that are whole at most before stage 3 stops gathering ahead.
    pub max_live_parameters: u64,
    /// A parameter that is used again within so many elements stays whole.
    pub max_reuse_distance: u64,
    /// With stage 3, a linear layer keeps its input and its parameter instead of the whole weight.
    pub memory_efficient_linear: bool,
    /// The format that gradients are added up in; `None` for the parameters' own.
    pub grad_accum_dtype: Option<Dtype>,
    /// The format of the master weights; and of the optimizer's states.
    pub master_dtype: Dtype,
    /// The model is shared while it is made (`zero.Init`).
    pub init: bool,
}

/// How several ranks train together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// Each holds the whole model.
    Ddp(Ddp),
    /// Each holds a part of all.
    Fsdp(Fsdp),
    /// Each holds a part of what DeepSpeed's stage says.
    Zero(Zero),
}

/// A model and how it is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The model's shape.
    pub model: ModelConfig,
    /// The format of the base weights.
    pub dtype: options::Dtype,
    /// The format of the weights that int8 and int4 leave unquantised.
    pub torch_dtype: Dtype,
    /// The adapters; `None` trains weights.
    pub adapter: Option<AdapterOptions>,
    /// The weights that are trained without adapters: all without patterns.
    pub trainable: Option<Vec<NamePattern>>,
    /// Weights that share a scale of int4.
    pub bnb_4bit_blocksize: u64,
    /// Quantise the scales of int4 too.
    pub bnb_4bit_use_double_quant: bool,
    /// The format that products of int4 are computed in.
    pub bnb_4bit_compute_dtype: Dtype,
    /// True if outliers are looked for among the inputs of int8's products (`llm_int8_threshold` above 0).
    pub finds_outliers: bool,
    /// How attention is computed.
    pub attn_implementation: Attention,
    /// The weights that are cast to float32 before training.
    pub upcast: Upcast,
    /// The format of mixed precision.
    pub autocast: Autocast,
    /// Keep the key-value cache while training.
    pub use_cache: bool,
    /// The blocks that recompute their forward pass.
    pub gradient_checkpointing: Checkpointing,
    /// Make the embeddings' output require a gradient, as checkpointing of frozen embeddings needs or used to need.
    pub enable_input_require_grads: bool,
    /// The optimizer.
    pub optim: Optimizer,
    /// Rank of rsvd's state.
    pub optim_rank: u32,
    /// Steps after which rsvd refreshes its projections.
    pub update_proj_gap: u32,
    /// True if embeddings have states of 32 bits with an optimizer of 8 bits.
    pub embedding_states_32bit: bool,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Largest norm of the gradients; 0 switches clipping off.
    pub max_grad_norm: f64,
    /// The causal loss.
    pub loss: Loss,
    /// How long a micro-batch's outputs live.
    pub outputs: OutputLifetime,
    /// When gradients are released.
    pub zero_grad: ZeroGrad,
    /// Generation between steps.
    pub generation: Option<Generation>,
    /// True if the model is saved between steps.
    pub saves: bool,
    /// The GPU, as far as libraries ask.
    pub capability: ComputeCapability,
    /// The GPU's multiprocessors, among which kernels share out their work; `None` for those of a usual GPU of its
    /// capability.
    pub multiprocessors: Option<u64>,
    /// The release of transformers.
    pub transformers: Transformers,
    /// The release of PEFT.
    pub peft: Peft,
    /// The release of bitsandbytes.
    pub bitsandbytes: Bitsandbytes,
    /// The release of PyTorch.
    pub pytorch: Pytorch,
    /// The release of DeepSpeed.
    pub deepspeed: Deepspeed,
    /// Weights that stay as they are come to the GPU by `from_pretrained` with a `device_map`, and not by
    /// `model.to("cuda")` after it.
    pub device_map: bool,
    /// How ranks train together; `None` if there is one.
    pub ranks: Option<Ranks>,
    /// Bytes of the GPU that are free before anything is loaded; `None` if no GPU is named.
    pub free_bytes: Option<u64>,
    /// The kernels whose memory is traced.
    pub backend: Backend,
}

impl Configuration {
    /// A spec's default cell on one of NVIDIA's Ampere GPUs: NF4 with LoRA of rank 16 on every linear layer.
    pub fn new(model: ModelConfig) -> Self {
        Self {
            model,
            dtype: options::Dtype::Int4,
            torch_dtype: Dtype::Bfloat16,
            adapter: Some(AdapterOptions::lora(16, 16.0)),
            trainable: None,
            bnb_4bit_blocksize: options::DEFAULT_BLOCK_SIZE as u64,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            finds_outliers: true,
            attn_implementation: Attention::Sdpa,
            upcast: Upcast::None,
            autocast: Autocast::None,
            use_cache: false,
            gradient_checkpointing: Checkpointing::None,
            enable_input_require_grads: false,
            optim: Optimizer::Adamw,
            optim_rank: 4,
            update_proj_gap: 200,
            embedding_states_32bit: Transformers::TODAY.embedding_states_32bit,
            weight_decay: 0.0,
            max_grad_norm: 1.0,
            loss: Loss::Full,
            outputs: OutputLifetime::Step,
            zero_grad: ZeroGrad::AfterStep,
            generation: None,
            saves: false,
            capability: ComputeCapability(8, 0),
            multiprocessors: None,
            transformers: Transformers::TODAY,
            peft: Peft::TODAY,
            bitsandbytes: Bitsandbytes::TODAY,
            pytorch: Pytorch::TODAY,
            deepspeed: Deepspeed::TODAY,
            device_map: false,
            ranks: None,
            free_bytes: None,
            backend: Backend::Cuda,
        }
    }

    /// The format of all that is not quantised, as it is loaded.
    pub(super) fn unquantised(&self) -> Dtype {
        match self.dtype {
            options::Dtype::Float32 => Dtype::Float32,
            options::Dtype::Float16 => Dtype::Float16,
            options::Dtype::Bfloat16 => Dtype::Bfloat16,
            options::Dtype::Int8 | options::Dtype::Int4 => self.torch_dtype,
        }
    }

    /// How FSDP is made, if it shares the model.
    pub(super) fn fsdp(&self) -> Option<&Fsdp> {
        match &self.ranks {
            Some(Ranks::Fsdp(fsdp)) => Some(fsdp),
            Some(Ranks::Ddp(_) | Ranks::Zero(_)) | None => None,
        }
    }

    /// How ZeRO is made, if it shares the training.
    pub(super) fn zero(&self) -> Option<&Zero> {
        match &self.ranks {
            Some(Ranks::Zero(zero)) => Some(zero),
            Some(Ranks::Ddp(_) | Ranks::Fsdp(_)) | None => None,
        }
    }

    /// True if a rank holds a part of each parameter.
    pub(super) fn shares_parameters(&self) -> bool {
        self.fsdp().is_some() || self.zero().is_some_and(|zero| zero.stage == 3)
    }

    /// The format of autocast, if it is on.
    pub(super) fn autocast_dtype(&self) -> Option<Dtype> {
        Dtype::of_autocast(self.autocast)
    }

    /// True if A and B are groups of their own to the optimizer, as with LoRA+.
    pub(super) fn has_groups(&self) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| adapter.lr_ratio() != 1.0)
    }

    /// True if the weight `part` of the module called `module` is trained without adapters.
    pub(super) fn trains(&self, module: &str, part: &str) -> bool {
        self.adapter.is_none() && is_trainable(self.trainable.as_deref(), module, part)
    }

    /// True if tensors have gradients that the optimizer does not heed.
    fn has_unstepped(&self) -> bool {
        let adapter = self.adapter.as_ref();
        adapter.is_some_and(|adapter| adapter.lora_fa == LoraATraining::Unstepped)
    }

    /// True if the first product with a weight makes tiles of it.
    pub(super) fn tiles_weights(&self) -> bool {
        self.dtype == options::Dtype::Int8 && self.bitsandbytes.has_tiled_int8
    }

    /// True if the first step does what none after it does: it may put tiles in the place of weights, and FSDP1 and ZeRO
    /// learn the order of the forward pass.
    pub(super) fn first_step_differs(&self) -> bool {
        self.tiles_weights() || self.zero().is_some() || self.fsdp().is_some_and(|fsdp| !fsdp.per_parameter)
    }

    /// True if a step leaves nothing that the next one releases or adds to, so that its events can be repeated.
    pub(super) fn steps_end_clean(&self) -> bool {
        self.outputs != OutputLifetime::NextForward
            && self.zero_grad == ZeroGrad::AfterStep
            && !self.has_unstepped()
            // The next forward pass releases the gradients.
            && !self.fsdp().is_some_and(|fsdp| fsdp.use_orig_params)
            // The next step gathers small parameters again.
            && self.zero().is_none_or(|zero| zero.stage < 3)
            // Only some steps renew its projections.
            && self.optim != Optimizer::Rsvd
    }
}
