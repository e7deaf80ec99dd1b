//! Gemma: transformers' `GemmaForCausalLM`. Gemma 2 without norms of outputs, soft caps and windows, or Llama with
//! Gemma's norms, scaled embeddings and GeGLU.

use super::gemma2;
use crate::description::{Defaults, Description, Windows};
use crate::module::Bias::{Attention, Never};
use crate::module::Size::{Hidden, Intermediate, Keys, Queries};
use crate::module::{centered_norm, linear};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "gemma",
    class: "Gemma",
    block: &[
        centered_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Attention),
        linear("self_attn.k_proj", &[Keys, Hidden], Attention),
        linear("self_attn.v_proj", &[Keys, Hidden], Attention),
        linear("self_attn.o_proj", &[Hidden, Queries], Attention),
        centered_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Never),
        linear("mlp.up_proj", &[Intermediate, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
    ],
    returns_cache: false,
    both_masks: false,
    key_names: &[],
    releases: Some(Releases {
        oldest: 40,
        repeated_flash_heads_until: 0,
        scales_in_model: true,
        ..Releases::SINCE_4_48
    }),
    keys: &["attention_bias"],
    defaults: Defaults {
        hidden_size: 3072,
        intermediate_size: 24_576,
        num_hidden_layers: 28,
        num_attention_heads: 16,
        num_key_value_heads: Some(16),
        activation: &["gelu_pytorch_tanh", "gelu"],
        query_pre_attn_scalar: None,
        attention_softcap: None,
        logit_softcap: None,
        sliding_window: None,
        windows: Windows::Never,
        ..gemma2::FAMILY.defaults
    },
    ..gemma2::FAMILY
};
