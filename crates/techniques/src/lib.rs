//! The techniques that save memory, one a file: the key that each sets, the values to try, and their price.
//!
//! A search for what fits knows nothing of them but the list in `registry.rs`.

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
mod registry;
mod sequence_length;
mod sharding;
mod target_modules;
mod technique;
#[cfg(test)]
mod tests;
mod toggle;
mod trainable;
mod upcast;
mod zero;
mod zero_grad;

pub use offload::OFFLOAD;
pub use pairs::{Pair, pairs};
pub use price::{Harm, Price};
pub use registry::TECHNIQUES;
pub use technique::{Change, Step, Technique};
