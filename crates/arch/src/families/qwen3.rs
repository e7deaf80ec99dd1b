//! Qwen 3: transformers' `Qwen3ForCausalLM`. Each head's queries and keys are normalised.

use options::Task;

use crate::description::{DECODER, DECODER_LEAVES, Defaults, Description, Fixed, Windows};
use crate::ia3::QUERIES_AND_VALUES;
use crate::module::Bias::{Attention, Never};
use crate::module::Size::{Head, Hidden, Intermediate, Keys, Queries, Vocabulary};
use crate::module::{embedding, linear, rms_norm, token_head};

pub(crate) const FAMILY: Description = Description {
    model_type: "qwen3",
    class: "Qwen3",
    task: Task::CausalLm,
    prefix: "",
    blocks: "model.layers",
    embeddings: &[embedding("model.embed_tokens", &[Vocabulary, Hidden])],
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
    head: &[
        rms_norm("model.norm", &[Hidden]),
        token_head("lm_head", &[Vocabulary, Hidden]),
    ],
    ia3: QUERIES_AND_VALUES,
    weightless_leaves: DECODER_LEAVES,
    key_names: &[],
    keys: &[
        "attention_bias",
        "layer_types",
        "max_window_layers",
        "sliding_window",
        "use_sliding_window",
    ],
    fixed: &[("attention_dropout", Fixed::Zero)],
    defaults: Defaults {
        vocab_size: 151_936,
        intermediate_size: 22_016,
        num_key_value_heads: Some(32),
        head_dim: Some(128),
        max_position_embeddings: 32_768,
        sliding_window: Some(4096),
        windows: Windows::Later,
        ..DECODER
    },
};
