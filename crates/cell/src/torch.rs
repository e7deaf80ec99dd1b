//! The key `torch`: PyTorch's training loop and the releases that a plan is of.

use super::acts::{GENERATING, INT4, LORA, Move::*, torch};
use super::facts::{Deciding, Facts, Idle, NO_ENGINE, UNPACKED};
use super::map::cell_keys;
use super::{
    Attention, Autocast, Distributed, Dtype, Generation, OutputLifetime, PackingStrategy, Task, Upcast, ZeroGrad,
};

cell_keys! {
    /// Keys of `stack: torch` alone.
    pub struct Torch of Deciding {
        /// Key-value cache while training; transformers builds none where every block is checkpointed.
        use_cache: bool = false => {
            heeded: Deciding::may_cache,
            acts: [torch("torch: {keep_outputs: next_forward}", "true", &[Bytes])],
        }
        /// Lifetime of a micro-batch's outputs (logits and cache) and of their graph. With `none`, nothing but a number
        /// outlives the backward pass, as in transformers' Trainer. `step` keeps them to its end, or to the next
        /// micro-batch's forward pass. `next_forward` keeps them until the next forward pass has replaced them, also across
        /// steps, as in a script's loop.
        keep_outputs: OutputLifetime = OutputLifetime::Step => {
            acts: [torch(LORA, "none", &[Bytes])],
        }
        /// Release of the gradients: `before_forward` (of the next step), `after_step`, or `never` (filled with zeros, as before
        /// torch 2.0 and with `set_to_none=False`). An emptied cache lies between the first two, so they differ with
        /// empty_cache_steps.
        zero_grad: ZeroGrad = ZeroGrad::AfterStep => {
            acts: [
                torch(LORA, "never", &[Bytes]),
                torch("empty_cache_steps: 1", "before_forward", &[Bytes]),
            ],
        }
        /// Text that the model generates between steps, as an evaluation does: `{eval_steps, batch_size, prompt_tokens,
        /// max_new_tokens}`.
        generation: Option<Generation> = None => {
            heeded: |cell| cell.task == Task::CausalLm,
            example: "{eval_steps: 1, batch_size: 1, prompt_tokens: 1, max_new_tokens: 1}",
            no_technique: "a fact of the loop: what an evaluation generates",
            acts: [torch(LORA, "{eval_steps: 1, batch_size: 32, prompt_tokens: 64, max_new_tokens: 4}", &[Bytes])],
            nested: &[
                ("eval_steps", Facts::acting(&[
                        torch(
                            "max_steps: 20, data: {synthetic: {lengths: uniform}}, batch_size: 4, padding: longest, \
                             torch: {keep_outputs: next_forward, generation: {eval_steps: 1, batch_size: 16, \
                             prompt_tokens: 64, max_new_tokens: 8}}",
                            "20",
                            &[Bytes],
                        ),
                    ])),
                ("batch_size", Facts::acting(&[torch(GENERATING, "8", &[Bytes])])),
                ("prompt_tokens", Facts::acting(&[torch(GENERATING, "128", &[Bytes])])),
                ("max_new_tokens", Facts::acting(&[torch(GENERATING, "256", &[Bytes])])),
            ],
        }
        /// Optimizer steps after which the Trainer saves the model. bitsandbytes 0.38.0 to 0.39.0 alone take memory of the GPU for it, of
        /// int8: three times the weights while they save, and twice from then on. Default: nothing is saved.
        save_steps: Option<usize> = None => {
            heeded: |cell| cell.dtype == Dtype::Int8,
            idle: Idle::by("dtype", "saving takes memory of the GPU with int8 alone"),
            example: "1",
            no_technique: "a fact of the training; what is saved costs memory",
            acts: [
                torch(
                    "dtype: int8, attn_implementation: eager, torch: {bitsandbytes_version: '0.38.1', transformers_version: '4.31.0', peft_version: '0.3.0'}",
                    "1",
                    &[Bytes],
                ),
            ],
        }
        /// The model is compiled by torch.compile. It is measured with `engine: python`; no plan models it.
        compile: bool = false => {
            heeded: |cell| cell.engine.is_some(),
            idle: NO_ENGINE,
            no_technique: "no plan models it",
            of_training: true,
            untried: "it needs a Python with PyTorch",
        }
        /// TRL's way of packing. `bfd` (best fit decreasing) keeps samples whole, and a micro-batch is one row without padding,
        /// for flash_attention_2. `wrapped` lays all tokens in a row and cuts it every max_seq_length.
        packing_strategy: PackingStrategy = PackingStrategy::Bfd => {
            heeded: |cell| cell.packing,
            idle: UNPACKED,
            no_technique: "a way of packing, whose rows are another experiment",
            acts: [
                torch(
                    "data: {synthetic: {lengths: [4, 24, 8, 16]}}, batch_size: 4, packing: true, \
                     attn_implementation: flash_attention_2",
                    "wrapped",
                    &[Bytes],
                ),
            ],
        }
        /// Reentrant checkpointing. Default: as in transformers_version; today's is not.
        use_reentrant: Option<bool> = None => {
            example: "true",
            no_technique: "a fact of the release; saves nothing dependable",
            acts: [torch("gradient_checkpointing: full", "true", &[Bytes])],
        }
        /// Weights that are not quantised come to the GPU by `from_pretrained` with a `device_map`. `model.to("cuda")`
        /// after it leaves more in the allocator. Default: not, with a range for both; int4 and int8 need a `device_map`.
        device_map: Option<bool> = None => {
            heeded: |cell| !cell.dtype.is_quantised(),
            idle: Idle::by("dtype", "quantised weights are loaded with a device_map, always"),
            example: "true",
            no_technique: "a fact of how the script loads",
            acts: [
                torch("model: smollm2-135m", "true", &[Bytes]),
                torch("model: smollm2-135m", "false", &[Report]),
            ],
        }
        /// `sdpa` is given keys and values repeated for the queries that share them, also where there is no mask, as a program makes it
        /// to have the memory-efficient kernel on an older GPU. Default: as in transformers_version; today's repeats none there.
        repeat_kv: Option<bool> = None => {
            heeded: |cell| cell.may_cache() && cell.attn_implementation == Attention::Sdpa,
            example: "true",
            no_technique: "a fact of the release or the script; true costs memory, and false is today's",
            acts: [
                torch(LORA, "true", &[Bytes]),
                torch("torch: {transformers_version: '4.50.0'}", "false", &[Bytes]),
            ],
        }
        /// Embeddings keep states of 32 bits with an optimizer of 8 bits, as transformers' Trainer tells bitsandbytes; false for a
        /// script that makes bitsandbytes' optimizer itself. Default: as in transformers_version; today's does.
        embedding_states_32bit: Option<bool> = None => {
            heeded: |cell| cell.optim.is_8bit(),
            example: "true",
            no_technique: "a fact of the script that makes the optimizer",
            acts: [torch("rank: 0, optim: adamw_8bit", "false", &[Bytes])],
        }
        /// DDP looks for parameters that a step does not use, for which it copies loss and logits. Default: true, as in
        /// transformers' Trainer, but false for a model without adapters that checkpoints, and with reentrant checkpoints,
        /// where it cannot.
        ddp_find_unused_parameters: Option<bool> = None => {
            heeded: is_ddp,
            idle: NO_DDP,
            example: "true",
            no_technique: "a fact of the script",
            acts: [torch("world_size: 2", "false", &[Bytes])],
        }
        /// The least size of DDP's buckets of gradients in MiB. Default: PyTorch's 25, of which the first has 1.
        ddp_bucket_cap_mb: Option<u32> = None => {
            heeded: is_ddp,
            idle: NO_DDP,
            example: "1",
            no_technique: "changes how gradients are cut into buckets, not how many there are",
            acts: [torch("model: smollm2-135m, rank: 0, world_size: 2", "1000", &[Bytes])],
        }
        /// Gradients are parts of DDP's buckets, which otherwise hold them once more.
        gradient_as_bucket_view: bool = false => {
            heeded: is_ddp,
            idle: NO_DDP,
            no_technique: "a fact of the script, which accelerate's `DistributedDataParallelKwargs` sets",
            acts: [torch("rank: 0, world_size: 2", "true", &[Bytes])],
        }
        /// Release of transformers, such as "4.37.2". Older ones hold more in some places, and checkpoint reentrantly
        /// before 5.0.0. "nearest 4.28.1" is the nearest that has been studied, which the plan names; so with the other
        /// releases. Default: today's, as is every newer one.
        transformers_version: Option<String> = None => {
            example: "''",
            no_technique: "a release",
            acts: [torch(LORA, "'4.37.2'", &[Bytes])],
        }
        /// Release of PEFT, such as "0.19.1". It makes a difference to its k-bit preparation by `upcast`: from 0.20.0 that ends by giving the
        /// allocator's cache back; and to LoRA on unquantised weights under autocast before 0.9.0. Other methods than LoRA are planned from 0.20.0 on. Default: today's.
        peft_version: Option<String> = None => {
            plain: |release, cell| release.filter(|_| has_peft_release(cell)),
            heeded: has_peft_release,
            example: "''",
            no_technique: "a release",
            acts: [torch("model: smollm2-135m, dtype: int4, upcast: peft", "'0.19.1'", &[Bytes])],
        }
        /// Release of TRL whose SFTTrainer trains, such as "1.16.0". It decides the default of `loss`: full before 1.7, chunked to
        /// 1.14, tiled from 1.15 on. Default: the loss of transformers, full.
        trl_version: Option<String> = None => {
            heeded: |cell| cell.task == Task::CausalLm,
            example: "''",
            no_technique: "a release",
            acts: [torch(LORA, "'1.14.0'", &[Bytes])],
        }
        /// Release of bitsandbytes, such as "0.41.1". It makes a difference to weights in int4 or int8, and to its optimizers. Default: today's.
        bitsandbytes_version: Option<String> = None => {
            plain: |release, cell| release.filter(|_| has_bitsandbytes(cell)),
            heeded: has_bitsandbytes,
            example: "''",
            no_technique: "a release",
            acts: [torch(INT4, "'0.41.1'", &[Bytes])],
        }
        /// Release of DeepSpeed, such as "0.14.2", from 0.14.0 on: when it makes its buckets, where it lays weights one after the other, and
        /// what it looks for overflows in. Default: today's.
        deepspeed_version: Option<String> = None => {
            heeded: is_deepspeed,
            idle: NO_DEEPSPEED,
            example: "''",
            no_technique: "a release",
            acts: [torch(
                "rank: 0, dtype: bfloat16, world_size: 2, distributed: deepspeed, zero_optimization: {reduce_bucket_size: 500000000}",
                "'0.18.0'",
                &[Bytes],
            )],
        }
        /// Release of PyTorch, such as "2.14.0": its allocator, and whether workspaces of products stay. Default: today's.
        torch_version: Option<String> = None => {
            example: "''",
            no_technique: "a release",
            acts: [torch(LORA, "'2.14.0'", &[Bytes])],
        }
    }
}

const NO_DDP: Idle = Idle::by("world_size", "says how several processes of DDP exchange gradients")
    .or("use `world_size: 2` or more with `distributed: ddp`");

fn is_ddp(cell: &Deciding) -> bool {
    cell.world_size > 1 && cell.distributed == Distributed::Ddp
}

const NO_DEEPSPEED: Idle =
    Idle::by("distributed", "is the release of what shares the training").or("use `distributed: deepspeed`");

fn is_deepspeed(cell: &Deciding) -> bool {
    cell.distributed == Distributed::Deepspeed
}

/// True if a plan depends on the release of PEFT.
fn has_peft_release(cell: &Deciding) -> bool {
    let adapts_dense = cell.method().is_some() && !cell.dtype.is_quantised();
    cell.upcast != Upcast::None || adapts_dense && cell.autocast != Autocast::None
}

/// True if a plan depends on the release of bitsandbytes.
fn has_bitsandbytes(cell: &Deciding) -> bool {
    cell.dtype.is_quantised() || cell.optim.is_from_bitsandbytes()
}
