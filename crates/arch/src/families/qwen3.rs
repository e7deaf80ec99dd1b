//! Qwen 3: transformers' `Qwen3ForCausalLM`. Qwen 2 with norms of each head's queries and keys, and biases only if the
//! file has them.

use super::qwen2;
use crate::description::{Defaults, Description};
use crate::module::Bias::{Attention, Never};
use crate::module::Size::{Head, Hidden, Intermediate, Keys, Queries};
use crate::module::{linear, rms_norm};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "qwen3",
    class: "Qwen3",
    block: &[
        rms_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Attention),
        linear("self_attn.k_proj", &[Keys, Hidden], Attention),
        linear("self_attn.v_proj", &[Keys, Hidden], Attention),
        rms_norm("self_attn.q_norm", &[Head]),
        rms_norm("self_attn.k_norm", &[Head]),
        linear("self_attn.o_proj", &[Hidden, Queries], Attention),
        rms_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Never),
        linear("mlp.up_proj", &[Intermediate, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
    ],
    releases: Some(Releases {
        oldest: 51,
        ..Releases::SINCE_4_48
    }),
    keys: &[
        "attention_bias",
        "layer_types",
        "max_window_layers",
        "sliding_window",
        "use_sliding_window",
    ],
    defaults: Defaults {
        head_dim: Some(128),
        ..qwen2::FAMILY.defaults
    },
    ..qwen2::FAMILY
};
