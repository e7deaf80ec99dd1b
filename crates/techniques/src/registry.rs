//! The list of techniques. A new one is a file and a line here.

use super::adapter::ADAPTER;
use super::adapter_dtype::ADAPTER_DTYPE;
use super::allocator::EXPANDABLE_SEGMENTS;
use super::attention::ATTENTION;
use super::autocast::AUTOCAST;
use super::checkpointing::CHECKPOINTING;
use super::compute_dtype::COMPUTE_DTYPE;
use super::double_quant::DOUBLE_QUANT;
use super::dropout::DROPOUT;
use super::dtype::DTYPE;
use super::empty_cache::EMPTY_CACHE;
use super::key_value_cache::KEY_VALUE_CACHE;
use super::lora_fa::LORA_FA;
use super::loss::LOSS;
use super::max_tokens::MAX_TOKENS;
use super::micro_batch::MICRO_BATCH;
use super::offload::OFFLOAD;
use super::optimizer::OPTIMIZER;
use super::outputs::OUTPUTS;
use super::packing::PACKING;
use super::padding::PADDING;
use super::rank::RANK;
use super::sequence_length::SEQUENCE_LENGTH;
use super::sharding::SHARDING;
use super::target_modules::TARGET_MODULES;
use super::technique::Technique;
use super::upcast::UPCAST;
use super::zero::ZERO;
use super::zero_grad::ZERO_GRAD;

/// Every technique.
pub const TECHNIQUES: [&Technique; 28] = [
    &ATTENTION,
    &OUTPUTS,
    &KEY_VALUE_CACHE,
    &ZERO_GRAD,
    &PADDING,
    &PACKING,
    &EXPANDABLE_SEGMENTS,
    &MICRO_BATCH,
    &MAX_TOKENS,
    &CHECKPOINTING,
    &OFFLOAD,
    &SHARDING,
    &ZERO,
    &LOSS,
    &EMPTY_CACHE,
    &OPTIMIZER,
    &ADAPTER_DTYPE,
    &UPCAST,
    &AUTOCAST,
    &COMPUTE_DTYPE,
    &DOUBLE_QUANT,
    &DTYPE,
    &DROPOUT,
    &ADAPTER,
    &LORA_FA,
    &RANK,
    &TARGET_MODULES,
    &SEQUENCE_LENGTH,
];
