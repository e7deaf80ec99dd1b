//! Qwen 2 and 2.5: transformers' `Qwen2ForCausalLM`. Queries, keys and values have biases.

use super::base::DECODER;
use crate::description::{Defaults, Description, Windows};
use crate::module::Bias::{Always, Never};
use crate::module::Size::{Hidden, Intermediate, Keys, Queries};
use crate::module::{linear, rms_norm};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "qwen2",
    class: "Qwen2",
    block: &[
        rms_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Always),
        linear("self_attn.k_proj", &[Keys, Hidden], Always),
        linear("self_attn.v_proj", &[Keys, Hidden], Always),
        linear("self_attn.o_proj", &[Hidden, Queries], Never),
        rms_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Never),
        linear("mlp.up_proj", &[Intermediate, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
    ],
    both_masks: true,
    releases: Some(Releases {
        oldest: 37,
        own_angles_until: 45,
        kept_angles_until: 45,
        taken_out_angles_until: 45,
        ..Releases::SINCE_4_48
    }),
    keys: &[
        "layer_types",
        "max_window_layers",
        "sliding_window",
        "use_sliding_window",
    ],
    defaults: Defaults {
        vocab_size: 151_936,
        intermediate_size: 22_016,
        num_key_value_heads: Some(32),
        max_position_embeddings: 32_768,
        sliding_window: Some(4096),
        windows: Windows::Later,
        ..DECODER.defaults
    },
    ..DECODER
};
