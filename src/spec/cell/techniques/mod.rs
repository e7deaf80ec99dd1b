//! The techniques that save memory, one a file: the key that each sets, the values to try, and their price.
//!
//! A search for what fits knows nothing of them but this list. A new technique is a file and a line here.

mod adapter;
mod adapter_dtype;
mod allocator;
mod attention;
mod autocast;
mod checkpointing;
mod compute_dtype;
mod double_quant;
mod dropout;
mod dtype;
mod empty_cache;
mod key_value_cache;
mod lora_fa;
mod loss;
mod max_tokens;
mod micro_batch;
mod native;
mod offload;
mod optimizer;
mod outputs;
mod packing;
mod padding;
mod pairs;
mod price;
mod rank;
mod sequence_length;
mod target_modules;
mod technique;
#[cfg(test)]
mod tests;
mod trainable;
mod upcast;
mod zero_grad;

pub use pairs::{Pair, pairs};
pub use price::{Harm, Price};
pub use technique::{Change, Step, Technique};

/// Every technique.
pub const TECHNIQUES: [&Technique; 26] = [
    &attention::ATTENTION,
    &outputs::OUTPUTS,
    &key_value_cache::KEY_VALUE_CACHE,
    &zero_grad::ZERO_GRAD,
    &padding::PADDING,
    &packing::PACKING,
    &allocator::EXPANDABLE_SEGMENTS,
    &micro_batch::MICRO_BATCH,
    &max_tokens::MAX_TOKENS,
    &checkpointing::CHECKPOINTING,
    &offload::OFFLOAD,
    &loss::LOSS,
    &empty_cache::EMPTY_CACHE,
    &optimizer::OPTIMIZER,
    &adapter_dtype::ADAPTER_DTYPE,
    &upcast::UPCAST,
    &autocast::AUTOCAST,
    &compute_dtype::COMPUTE_DTYPE,
    &double_quant::DOUBLE_QUANT,
    &dtype::DTYPE,
    &dropout::DROPOUT,
    &adapter::ADAPTER,
    &lora_fa::LORA_FA,
    &rank::RANK,
    &target_modules::TARGET_MODULES,
    &sequence_length::SEQUENCE_LENGTH,
];
