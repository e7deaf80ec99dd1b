//! Mistral: transformers' `MistralForCausalLM`. Llama without biases, with a sliding window.

use super::base::DECODER;
use crate::description::{Defaults, Description, Windows};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "mistral",
    class: "Mistral",
    releases: Some(Releases {
        oldest: 34,
        sdpa_from: 37,
        kept_angles_until: 42,
        taken_out_angles_until: 42,
        float32_logits_until: 48,
        ..Releases::SINCE_4_48
    }),
    keys: &["sliding_window"],
    defaults: Defaults {
        intermediate_size: 14_336,
        num_key_value_heads: Some(8),
        max_position_embeddings: 131_072,
        sliding_window: Some(4096),
        windows: Windows::All,
        ..DECODER.defaults
    },
    ..DECODER
};
