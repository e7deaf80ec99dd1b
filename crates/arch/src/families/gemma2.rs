//! Gemma 2: transformers' `Gemma2ForCausalLM`. Outputs of layers have norms, scores and logits soft caps, and every
//! second block a sliding window.

use super::base::DECODER;
use crate::description::{Defaults, Description, Fixed, Windows};
use crate::module::Bias::{Attention, Never};
use crate::module::Size::{Hidden, Intermediate, Keys, Queries, Vocabulary};
use crate::module::{centered_norm, linear, scaled_embedding, token_head};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "gemma2",
    class: "Gemma2",
    embeddings: &[scaled_embedding("model.embed_tokens", &[Vocabulary, Hidden])],
    block: &[
        centered_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Attention),
        linear("self_attn.k_proj", &[Keys, Hidden], Attention),
        linear("self_attn.v_proj", &[Keys, Hidden], Attention),
        linear("self_attn.o_proj", &[Hidden, Queries], Attention),
        centered_norm("post_attention_layernorm", &[Hidden]),
        centered_norm("pre_feedforward_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Never),
        linear("mlp.up_proj", &[Intermediate, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
        centered_norm("post_feedforward_layernorm", &[Hidden]),
    ],
    head: &[
        centered_norm("model.norm", &[Hidden]),
        token_head("lm_head", &[Vocabulary, Hidden]),
    ],
    returns_cache: true,
    both_masks: true,
    releases: Some(Releases::GEMMA_2),
    key_names: &[("hidden_act", "hidden_activation")],
    keys: &[
        "attention_bias",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "layer_types",
        "query_pre_attn_scalar",
        "sliding_window",
    ],
    fixed: &[
        ("attention_dropout", Fixed::Zero),
        ("use_bidirectional_attention", Fixed::False),
    ],
    defaults: Defaults {
        vocab_size: 256_000,
        hidden_size: 2304,
        intermediate_size: 9216,
        num_hidden_layers: 26,
        num_attention_heads: 8,
        num_key_value_heads: Some(4),
        head_dim: Some(256),
        max_position_embeddings: 8192,
        activation: &["gelu_pytorch_tanh"],
        query_pre_attn_scalar: Some(256),
        attention_softcap: Some(50.0),
        logit_softcap: Some(30.0),
        sliding_window: Some(4096),
        windows: Windows::AllBut(2),
        pad_token_id: Some(0),
        tie_word_embeddings: true,
        ..DECODER.defaults
    },
    ..DECODER
};
