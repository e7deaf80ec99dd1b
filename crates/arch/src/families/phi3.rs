//! Phi 3 and 4: transformers' `Phi3ForCausalLM`. Linear layers with the same input are one.

use options::Task;

use crate::description::{DECODER, DECODER_LEAVES, Defaults, Description, Fixed, WeightlessLeaves, Windows};
use crate::module::Bias::Never;
use crate::module::Size::{GateAndUp, Hidden, Intermediate, Queries, QueriesKeysValues, Vocabulary};
use crate::module::{embedding, linear, rms_norm, token_head};

pub(crate) const FAMILY: Description = Description {
    model_type: "phi3",
    class: "Phi3",
    task: Task::CausalLm,
    prefix: "",
    blocks: "model.layers",
    embeddings: &[embedding("model.embed_tokens", &[Vocabulary, Hidden])],
    block: &[
        rms_norm("input_layernorm", &[Hidden]),
        linear("self_attn.qkv_proj", &[QueriesKeysValues, Hidden], Never),
        linear("self_attn.o_proj", &[Hidden, Queries], Never),
        rms_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_up_proj", &[GateAndUp, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
    ],
    head: &[
        rms_norm("model.norm", &[Hidden]),
        token_head("lm_head", &[Vocabulary, Hidden]),
    ],
    ia3: None,
    weightless_leaves: WeightlessLeaves {
        // Dropout of attention's output and of the feed-forward layer's, and its activation.
        block: &[Hidden, Hidden, Intermediate],
        ..DECODER_LEAVES
    },
    key_names: &[],
    keys: &["sliding_window"],
    fixed: &[
        ("attention_dropout", Fixed::Zero),
        ("resid_pdrop", Fixed::Zero),
        ("embd_pdrop", Fixed::Zero),
    ],
    defaults: Defaults {
        vocab_size: 32_064,
        hidden_size: 3072,
        intermediate_size: 8192,
        max_position_embeddings: 4096,
        norm_eps: 1e-5,
        windows: Windows::All,
        pad_token_id: Some(32_000),
        ..DECODER
    },
};
