//! The key `zero_optimization`: how DeepSpeed's ZeRO shares a model among processes.

use super::acts::{Move::*, torch};
use super::facts::{Deciding, Idle};
use super::map::cell_keys;
use super::{Distributed, Elements, FloatDtype, OffloadDevice};

cell_keys! {
    /// Keys of `distributed: deepspeed` alone, by DeepSpeed's names. What is offloaded has accelerate's. Where DeepSpeed takes the
    /// model's format from `bf16` and `fp16`, the cell has `dtype`.
    pub struct ZeroOptimization of Deciding {
        /// What is shared: with 1 the optimizer's states and the float32 weights that it steps, with 2 gradients too, with 3 the weights too.
        /// The default is accelerate's.
        stage: usize = 2 => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            acts: [torch(ZERO2, "1", &[Bytes]), torch(ZERO2, "3", &[Bytes])],
        }
        /// Where the float32 weights and the optimizer's states are, and the optimizer steps: none is the GPU, cpu the CPU.
        offload_optimizer_device: OffloadDevice = OffloadDevice::None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            acts: [torch(ZERO2, "cpu", &[Bytes]), torch(ZERO3, "cpu", &[Bytes])],
        }
        /// The memory of `offload_optimizer_device: cpu` is pinned. It changes nothing of the GPU.
        offload_optimizer_pin_memory: bool = true => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "memory of the host",
            untried: "plans have the memory of the GPU alone",
        }
        /// With stage 3: where a process has its part of the weights: none is the GPU, cpu the CPU.
        offload_param_device: OffloadDevice = OffloadDevice::None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            acts: [torch(ZERO3, "cpu", &[Bytes])],
        }
        /// The memory of `offload_param_device: cpu` is pinned. It changes nothing of the GPU.
        offload_param_pin_memory: bool = true => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "memory of the host",
            untried: "plans have the memory of the GPU alone",
        }
        /// Another stream reduces gradients, and with stage 3 gathers weights. Default: with stage 3 alone, as DeepSpeed's.
        overlap_comm: Option<bool> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            example: "true",
            no_technique: "time for memory; DeepSpeed's default is seldom changed",
            acts: [torch(ZERO2, "true", &[Bytes])],
        }
        /// Gradients are copied into a bucket before they are reduced.
        contiguous_gradients: bool = true => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "against fragmentation; true is the default",
            acts: [torch(ZERO2, "false", &[Bytes])],
        }
        /// A bucket's gradients are reduced to the processes that they belong to, and not to all.
        reduce_scatter: bool = true => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "true is the default",
            acts: [torch(
                "model: smollm2-135m, rank: 0, world_size: 2, distributed: deepspeed, zero_optimization: {reduce_bucket_size: 500000000}",
                "false",
                &[Bytes],
            )],
        }
        /// With stages 1 and 2: weights lie in the flat tensor in turn, so that processes reduce in turn.
        round_robin_gradients: bool = false => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "an order of weights",
            acts: [torch(ZERO2, "true", &[Bytes])],
        }
        /// Elements of a bucket of gradients. Default: the square of the model's hidden size, which transformers' Trainer fills in for
        /// `auto`. DeepSpeed's own is 5e8.
        reduce_bucket_size: Option<Elements> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            example: "1",
            no_technique: "the default is small already",
            acts: [torch(ZERO2, "5e8", &[Bytes])],
        }
        /// With stage 3: elements of a process's part that the optimizer steps at once.
        sub_group_size: Elements = Elements(1_000_000_000) => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "bounds the optimizer's copies, which are small beside the step's peak",
            acts: [torch(ZERO3, "1000", &[Bytes])],
        }
        /// With stage 3: elements that are gathered ahead. Default: 0.9 of the square of the hidden size, as for `auto`. DeepSpeed's
        /// own is 5e7.
        stage3_prefetch_bucket_size: Option<Elements> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            aliases: ["prefetch_bucket_size"],
            example: "1",
            no_technique: "the default is small already",
            acts: [torch(ZERO3, "5e7", &[Bytes])],
        }
        /// With stage 3: weights of so many elements or fewer stay whole. Default: 10 times the hidden size, as for `auto`. DeepSpeed's own is 1e5.
        stage3_param_persistence_threshold: Option<Elements> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            aliases: ["param_persistence_threshold"],
            example: "1",
            no_technique: "the default keeps norms and biases alone",
            acts: [torch(ZERO3, "0", &[Bytes])],
        }
        /// With stage 3: elements of weights that stay whole at most. Default: no limit.
        stage3_model_persistence_threshold: Option<Elements> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            aliases: ["model_persistence_threshold"],
            example: "1",
            no_technique: "what stays whole is small",
            acts: [torch(ZERO3, "0", &[Bytes])],
        }
        /// With stage 3: elements of whole weights from which on none are gathered ahead, and those that were used are let go at once.
        stage3_max_live_parameters: Elements = Elements(1_000_000_000) => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            aliases: ["max_live_parameters"],
            no_technique: "fewer are gathered again and again, which takes time",
            acts: [torch("rank: 0, world_size: 2, distributed: deepspeed, zero_optimization: {stage: 3, stage3_max_reuse_distance: 0, stage3_prefetch_bucket_size: 50000000}", "0", &[Bytes])],
        }
        /// With stage 3: a weight that is used again within so many elements stays whole.
        stage3_max_reuse_distance: Elements = Elements(1_000_000_000) => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            aliases: ["max_reuse_distance"],
            no_technique: "fewer are gathered again and again, which takes time",
            acts: [torch(ZERO3, "0", &[Bytes])],
        }
        /// With stage 3: a linear layer keeps its input and its weight as a parameter, and not as it was gathered.
        memory_efficient_linear: bool = true => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "true is the default",
            acts: [torch("rank: 0, world_size: 2, distributed: deepspeed, zero_optimization: {stage: 3, stage3_max_reuse_distance: 0}", "false", &[Bytes])],
        }
        /// The format that gradients are added up in (`data_types.grad_accum_dtype`). Default: the model's.
        grad_accum_dtype: Option<FloatDtype> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            example: "float32",
            no_technique: "the default takes least",
            acts: [torch(
                "rank: 0, dtype: bfloat16, world_size: 2, distributed: deepspeed, zero_optimization: {stage: 3}",
                "float32",
                &[Bytes],
            )],
        }
        /// With `dtype: bfloat16`: the optimizer steps bfloat16 weights, in place of float32 copies (DeepSpeed's `bf16`).
        bf16_master_weights_and_grads: bool = false => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "other sums: each step is rounded to bfloat16",
            acts: [
                torch("rank: 0, dtype: bfloat16, world_size: 2, distributed: deepspeed", "true", &[Bytes])
                    .with("zero_optimization.bf16_optimizer_states: true"),
            ],
        }
        /// The optimizer's states are bfloat16, too; needs `bf16_master_weights_and_grads`.
        bf16_optimizer_states: bool = false => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "other sums: each step is rounded to bfloat16",
            acts: [
                torch("rank: 0, dtype: bfloat16, world_size: 2, distributed: deepspeed", "true", &[Bytes])
                    .with("zero_optimization.bf16_master_weights_and_grads: true"),
            ],
        }
        /// With stage 3: the model is shared while it is made (`zero.Init`), as where transformers' TrainingArguments are made before the
        /// model. Without it all of the model is on the GPU before it is shared.
        zero3_init_flag: bool = true => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            no_technique: "true is the default",
            acts: [torch(ZERO3, "false", &[Bytes])],
        }
    }
}

const ZERO2: &str = "rank: 0, world_size: 2, distributed: deepspeed";
const ZERO3: &str = "rank: 0, world_size: 2, distributed: deepspeed, zero_optimization: {stage: 3}";

const NO_DEEPSPEED: Idle =
    Idle::by("distributed", "says how DeepSpeed's ZeRO shares a model").or("use `distributed: deepspeed`");

fn is_deepspeed(cell: &Deciding) -> bool {
    cell.distributed == Distributed::Deepspeed
}

impl ZeroOptimization {
    /// True if another stream reduces and gathers.
    pub fn overlaps(&self) -> bool {
        self.overlap_comm.unwrap_or(self.overlaps_by_default())
    }

    /// True if it does where the key is left out.
    pub(super) fn overlaps_by_default(&self) -> bool {
        self.stage == 3
    }
}
