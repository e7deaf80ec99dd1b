//! Mistral: transformers' `MistralForCausalLM`. Llama without biases, with a sliding window.

use options::Task;

use crate::description::{DECODER, DECODER_LEAVES, Defaults, Description, Fixed, Windows};
use crate::ia3::KEYS_AND_VALUES;
use crate::module::Bias::Never;
use crate::module::Size::{Hidden, Intermediate, Keys, Queries, Vocabulary};
use crate::module::{embedding, linear, rms_norm, token_head};

pub(crate) const FAMILY: Description = Description {
    model_type: "mistral",
    class: "Mistral",
    task: Task::CausalLm,
    prefix: "",
    blocks: "model.layers",
    embeddings: &[embedding("model.embed_tokens", &[Vocabulary, Hidden])],
    block: &[
        rms_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Never),
        linear("self_attn.k_proj", &[Keys, Hidden], Never),
        linear("self_attn.v_proj", &[Keys, Hidden], Never),
        linear("self_attn.o_proj", &[Hidden, Queries], Never),
        rms_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Never),
        linear("mlp.up_proj", &[Intermediate, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
    ],
    head: &[
        rms_norm("model.norm", &[Hidden]),
        token_head("lm_head", &[Vocabulary, Hidden]),
    ],
    ia3: KEYS_AND_VALUES,
    weightless_leaves: DECODER_LEAVES,
    key_names: &[],
    keys: &["sliding_window"],
    fixed: &[("attention_dropout", Fixed::Zero)],
    defaults: Defaults {
        intermediate_size: 14_336,
        num_key_value_heads: Some(8),
        max_position_embeddings: 131_072,
        sliding_window: Some(4096),
        windows: Windows::All,
        ..DECODER
    },
};
