//! Llama: transformers' `LlamaForCausalLM`.

use options::Task;

use crate::description::{DECODER, DECODER_LEAVES, Description, Fixed};
use crate::ia3::KEYS_AND_VALUES;
use crate::module::Bias::{Attention, Mlp};
use crate::module::Size::{Hidden, Intermediate, Keys, Queries, Vocabulary};
use crate::module::{embedding, linear, rms_norm, token_head};

pub(crate) const FAMILY: Description = Description {
    model_type: "llama",
    class: "Llama",
    task: Task::CausalLm,
    prefix: "",
    blocks: "model.layers",
    embeddings: &[embedding("model.embed_tokens", &[Vocabulary, Hidden])],
    block: &[
        rms_norm("input_layernorm", &[Hidden]),
        linear("self_attn.q_proj", &[Queries, Hidden], Attention),
        linear("self_attn.k_proj", &[Keys, Hidden], Attention),
        linear("self_attn.v_proj", &[Keys, Hidden], Attention),
        linear("self_attn.o_proj", &[Hidden, Queries], Attention),
        rms_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_proj", &[Intermediate, Hidden], Mlp),
        linear("mlp.up_proj", &[Intermediate, Hidden], Mlp),
        linear("mlp.down_proj", &[Hidden, Intermediate], Mlp),
    ],
    head: &[
        rms_norm("model.norm", &[Hidden]),
        token_head("lm_head", &[Vocabulary, Hidden]),
    ],
    ia3: KEYS_AND_VALUES,
    weightless_leaves: DECODER_LEAVES,
    key_names: &[],
    keys: &["attention_bias", "mlp_bias"],
    fixed: &[("attention_dropout", Fixed::Zero)],
    defaults: DECODER,
};
