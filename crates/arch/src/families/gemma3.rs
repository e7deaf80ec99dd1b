//! Gemma 3's language model: transformers' `Gemma3ForCausalLM`. Gemma 2 with norms of queries and keys in the place of
//! soft caps; local blocks, with a sliding window, have a rotary base of their own.

use super::gemma2;
use crate::description::{Defaults, Description, Windows};
use crate::module::Bias::{Attention, Never};
use crate::module::Size::{Head, Hidden, Intermediate, Keys, Queries};
use crate::module::{centered_norm, linear};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "gemma3_text",
    class: "Gemma3",
    block: &[
        centered_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Attention),
        linear("self_attn.k_proj", &[Keys, Hidden], Attention),
        linear("self_attn.v_proj", &[Keys, Hidden], Attention),
        centered_norm("self_attn.q_norm", &[Head]),
        centered_norm("self_attn.k_norm", &[Head]),
        linear("self_attn.o_proj", &[Hidden, Queries], Attention),
        centered_norm("post_attention_layernorm", &[Hidden]),
        centered_norm("pre_feedforward_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Never),
        linear("mlp.up_proj", &[Intermediate, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
        centered_norm("post_feedforward_layernorm", &[Hidden]),
    ],
    norms_by_heads: true,
    releases: Some(Releases {
        oldest: 50,
        scales_in_model: false,
        ..Releases::GEMMA_2
    }),
    keys: &[
        "attention_bias",
        "final_logit_softcapping",
        "layer_types",
        "query_pre_attn_scalar",
        "sliding_window",
        "sliding_window_pattern",
    ],
    defaults: Defaults {
        vocab_size: 262_208,
        max_position_embeddings: 131_072,
        rope_theta: 1_000_000.0,
        local_rope_theta: Some(10_000.0),
        attention_softcap: None,
        logit_softcap: None,
        windows: Windows::AllBut(6),
        ..gemma2::FAMILY.defaults
    },
    ..gemma2::FAMILY
};
