//! Ministral: transformers' `MinistralForCausalLM`. Mistral with a window in some layers, by the code of Qwen 2.

use super::{mistral, qwen2};
use crate::description::Description;

pub(crate) const FAMILY: Description = Description {
    model_type: "ministral",
    class: "Ministral",
    // No release before 5 has been studied.
    releases: None,
    both_masks: qwen2::FAMILY.both_masks,
    keys: &["layer_types", "sliding_window"],
    ..mistral::FAMILY
};
