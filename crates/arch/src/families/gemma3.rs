//! Gemma 3's language model: transformers' `Gemma3ForCausalLM`. Outputs of layers, queries and keys have norms; local
//! blocks, with a sliding window, have a rotary base of their own.

use options::Task;

use crate::description::{DECODER, DECODER_LEAVES, Defaults, Description, Fixed, Windows};
use crate::ia3::QUERIES_AND_VALUES;
use crate::module::Bias::{Attention, Never};
use crate::module::Size::{Head, Hidden, Intermediate, Keys, Queries, Vocabulary};
use crate::module::{centered_norm, linear, scaled_embedding, token_head};

pub(crate) const FAMILY: Description = Description {
    model_type: "gemma3_text",
    class: "Gemma3",
    task: Task::CausalLm,
    prefix: "",
    blocks: "model.layers",
    embeddings: &[scaled_embedding("model.embed_tokens", &[Vocabulary, Hidden])],
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
    head: &[
        centered_norm("model.norm", &[Hidden]),
        token_head("lm_head", &[Vocabulary, Hidden]),
    ],
    ia3: QUERIES_AND_VALUES,
    weightless_leaves: DECODER_LEAVES,
    key_names: &[("hidden_act", "hidden_activation")],
    keys: &[
        "attention_bias",
        "final_logit_softcapping",
        "layer_types",
        "query_pre_attn_scalar",
        "sliding_window",
        "sliding_window_pattern",
    ],
    fixed: &[
        ("attention_dropout", Fixed::Zero),
        ("use_bidirectional_attention", Fixed::False),
    ],
    defaults: Defaults {
        vocab_size: 262_208,
        hidden_size: 2304,
        intermediate_size: 9216,
        num_hidden_layers: 26,
        num_attention_heads: 8,
        num_key_value_heads: Some(4),
        head_dim: Some(256),
        max_position_embeddings: 131_072,
        activation: "gelu_pytorch_tanh",
        rope_theta: 1_000_000.0,
        local_rope_theta: Some(10_000.0),
        query_pre_attn_scalar: Some(256),
        sliding_window: Some(4096),
        windows: Windows::AllBut(6),
        pad_token_id: Some(0),
        tie_word_embeddings: true,
        ..DECODER
    },
};
