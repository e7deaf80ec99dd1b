//! The key `fsdp_config`: how FSDP shares a model among processes, by accelerate's names without their `fsdp_`.

use super::acts::{Move::*, torch};
use super::facts::{Deciding, Idle};
use super::map::cell_keys;
use super::{AutoWrapPolicy, BackwardPrefetch, Distributed, ShardingStrategy};

cell_keys! {
    /// Keys of `distributed: fsdp` alone. accelerate's `mixed_precision` is `autocast`, and its `activation_checkpointing` is
    /// `gradient_checkpointing`.
    pub struct FsdpConfig of Deciding {
        /// FSDP's version: 1 is `FullyShardedDataParallel`, whose units are flat tensors, and 2 `fully_shard`, which shares each
        /// parameter by itself.
        version: usize = 1 => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            aliases: ["fsdp_version"],
            acts: [torch(TWO_GPUS, "2", &[Bytes])],
        }
        /// With version 2: a unit is let go after its forward pass, and gathered again for its backward pass. Default: true.
        reshard_after_forward: Option<bool> = None => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            example: "true",
            acts: [torch("rank: 0, world_size: 2, distributed: fsdp, fsdp_config: {version: 2}", "false", &[Bytes])],
        }
        /// With version 1: what is shared. `full_shard` is parameters, gradients and optimizer states; with `shard_grad_op` a unit that is
        /// gathered stays until its backward pass is done; `no_shard` shares nothing. The hybrid ones share among the GPUs of a
        /// machine (`num_machines`).
        sharding_strategy: ShardingStrategy = ShardingStrategy::FullShard => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            acts: [torch(TWO_GPUS, "shard_grad_op", &[Bytes])],
        }
        /// The modules that are gathered together: blocks, and with LoRA each of its factors, or the whole model.
        auto_wrap_policy: AutoWrapPolicy = AutoWrapPolicy::TransformerBasedWrap => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            no_technique: "blocks, the default, save most",
            acts: [torch(TWO_GPUS, "no_wrap", &[Bytes])],
        }
        /// Class of the blocks, as in `_no_split_modules`. Default: the family's.
        transformer_layer_cls_to_wrap: Option<String> = None => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            example: "''",
            no_technique: "a name, which is checked",
            untried: "the only class that a model has is the default",
        }
        /// With version 1: when the next unit of the backward pass is gathered: before the gradients of the current one, after them, or when it is
        /// its turn.
        backward_prefetch: BackwardPrefetch = BackwardPrefetch::BackwardPre => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            no_technique: "a unit less is gathered at once, where memory seldom peaks",
            acts: [torch(SMOLLM, "no_prefetch", &[Bytes])],
        }
        /// With version 1: the next unit of the forward pass is gathered before the current one is computed.
        forward_prefetch: bool = false => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            no_technique: "costs memory; false is the default",
            acts: [torch(SMOLLM, "true", &[Bytes])],
        }
        /// With version 1: the CPU waits until the last unit but one is let go before it gathers another. It changes what is reserved, which
        /// without it has no bound that is known.
        limit_all_gathers: bool = true => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            no_technique: "true is the default",
            acts: [torch(SMOLLM, "false", &[Bytes])],
        }
        /// Shards, their gradients and the optimizer are on the CPU (`fsdp_offload_params`).
        offload_params: bool = false => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            aliases: ["cpu_offload"],
            acts: [torch(TWO_GPUS, "true", &[Bytes])],
        }
        /// With version 1: the optimizer has parts of each parameter, as with accelerate's launcher and transformers' Trainer; gradients then
        /// stay until the next forward pass. With false it has the shards.
        use_orig_params: bool = true => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            no_technique: "LoRA+ and partly frozen blocks need true",
            acts: [torch(TWO_GPUS, "false", &[Bytes])],
        }
        /// Checkpoints are within units, as `apply_activation_checkpointing` puts them, so that units are not gathered again with
        /// them. Default: as in transformers_version; today's are.
        activation_checkpointing: Option<bool> = None => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            example: "true",
            no_technique: "a fact of the release or the script",
            acts: [
                torch(
                    "world_size: 2, distributed: fsdp, gradient_checkpointing: full, torch: {use_reentrant: true}",
                    "false",
                    &[Bytes],
                ),
            ],
        }
        /// With version 1: machines that the GPUs are in, which the hybrid strategies tell apart.
        num_machines: usize = 1 => {
            heeded: is_fsdp,
            idle: NO_FSDP,
            no_technique: "the machines of the run",
            acts: [
                torch(
                    "rank: 0, world_size: 4, distributed: fsdp, fsdp_config: {sharding_strategy: hybrid_shard}",
                    "2",
                    &[Bytes],
                ),
            ],
        }
    }
}

const TWO_GPUS: &str = "rank: 0, world_size: 2, distributed: fsdp";
/// Memory peaks where units are gathered.
const SMOLLM: &str = "rank: 0, world_size: 2, distributed: fsdp, optim: sgd, model: smollm2-135m, max_seq_length: 8";

const NO_FSDP: Idle =
    Idle::by("distributed", "says how FSDP shares a model").or("use `distributed: fsdp` with `world_size: 2` or more");

fn is_fsdp(cell: &Deciding) -> bool {
    cell.world_size > 1 && cell.distributed == Distributed::Fsdp
}
