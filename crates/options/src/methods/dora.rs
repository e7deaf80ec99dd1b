//! DoRA (Liu et al. 2024, arXiv:2402.09353), which has LoRA's options.

use super::interface::{Facts, SavedTensor};
use super::lora;

pub(super) const FACTS: Facts = Facts {
    title: "DoRA",
    mark: Some("use_dora"),
    fields: &lora::FIELDS_OF_DORA,
    tensors: &[lora::A, lora::B, SavedTensor::vector(lora::MAGNITUDE)],
    ..lora::FACTS
};
