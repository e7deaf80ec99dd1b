//! The key `torch`: PyTorch's training loop and the releases that a plan is of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Generation, OutputLifetime, PackingStrategy, ZeroGrad};

/// Keys of `stack: torch` alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Torch {
    /// Key-value cache while training.
    pub use_cache: bool,
    /// Lifetime of a micro-batch's outputs (logits and cache) and of their graph. With `none`, nothing but a number
    /// outlives the backward pass, as in transformers' Trainer. `step` keeps them to its end, or to the next
    /// micro-batch's forward pass. `next_forward` keeps them until the next forward pass has replaced them, also across
    /// steps, as in a script's loop.
    pub keep_outputs: OutputLifetime,
    /// Release of the gradients: `before_forward` (of the next step), `after_step`, or `never` (filled with zeros, as before
    /// torch 2.0 and with `set_to_none=False`). An emptied cache lies between the first two, so they differ with
    /// empty_cache_steps.
    pub zero_grad: ZeroGrad,
    /// Text that the model generates between steps, as an evaluation does: `{eval_steps, batch_size, prompt_tokens,
    /// max_new_tokens}`.
    pub generation: Option<Generation>,
    /// TRL's way of packing. `bfd` (best fit decreasing) keeps samples whole, and a micro-batch is one row without padding,
    /// for flash_attention_2. `wrapped` lays all tokens in a row and cuts it every max_seq_length.
    pub packing_strategy: PackingStrategy,
    /// Reentrant checkpointing. Default: as in transformers_version; today's is not.
    pub use_reentrant: Option<bool>,
    /// Weights that are not quantised come to the GPU by `from_pretrained` with a `device_map`. `model.to("cuda")`
    /// after it leaves more in the allocator. Default: not, with a range for both; int4 and int8 need a `device_map`.
    pub device_map: Option<bool>,
    /// `sdpa` is given keys and values repeated for the queries that share them, also where there is no mask, as a program makes it
    /// to have the memory-efficient kernel on an older GPU. Default: as in transformers_version; today's repeats none there.
    pub repeat_kv: Option<bool>,
    /// Embeddings keep states of 32 bits with an optimizer of 8 bits, as transformers' Trainer tells bitsandbytes; false for a
    /// script that makes bitsandbytes' optimizer itself. Default: as in transformers_version; today's does.
    pub embedding_states_32bit: Option<bool>,
    /// Release of transformers, such as "4.37.2". Older ones hold more in some places, and checkpoint reentrantly
    /// before 5.0.0. Default: today's, as is every newer one.
    pub transformers_version: Option<String>,
    /// Release of PEFT, such as "0.19.1", for its k-bit preparation. Default: today's, which gives the allocator's cache
    /// back at its end, as from 0.20.0.
    pub peft_version: Option<String>,
    /// Release of bitsandbytes, such as "0.41.1", for weights in int4 or its optimizers. Default: today's.
    pub bitsandbytes_version: Option<String>,
    /// Release of PyTorch, such as "2.14.0": its allocator, and whether workspaces of products stay. Default: today's.
    pub torch_version: Option<String>,
}

impl Default for Torch {
    fn default() -> Self {
        Self {
            use_cache: false,
            keep_outputs: OutputLifetime::Step,
            zero_grad: ZeroGrad::AfterStep,
            generation: None,
            packing_strategy: PackingStrategy::Bfd,
            use_reentrant: None,
            device_map: None,
            repeat_kv: None,
            embedding_states_32bit: None,
            transformers_version: None,
            peft_version: None,
            bitsandbytes_version: None,
            torch_version: None,
        }
    }
}
