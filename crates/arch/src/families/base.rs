//! What a family begins with: the facts that most decoders and encoders share. The others stand in each family's file.

use options::Task;

use crate::description::{Build, Defaults, Description, Fixed, WeightlessLeaves, Windows};
use crate::module::Bias::{Attention, Mlp};
use crate::module::Size::{Hidden, Intermediate, Keys, Queries, Vocabulary};
use crate::module::{embedding, linear, rms_norm, token_head};
use crate::releases::Releases;

/// A decoder with Llama's modules and sizes. It has no name, and nothing is known of older releases.
pub(super) const DECODER: Description = Description {
    model_type: "",
    class: "",
    task: Task::CausalLm,
    prefix: "",
    blocks: "model.layers",
    embeddings: &[embedding("model.embed_tokens", &[Vocabulary, Hidden])],
    // A family that does not read `attention_bias` or `mlp_bias` is without biases.
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
    weightless_leaves: WeightlessLeaves {
        embeddings: &[],
        // The feed-forward layer's activation.
        block: &[Intermediate],
        head: &[],
    },
    built_as: Some(Build::Decoder),
    rotates_shares: false,
    norms_by_heads: false,
    returns_cache: false,
    both_masks: false,
    has_output_modules: false,
    releases: None,
    key_names: &[],
    keys: &[],
    fixed: &[("attention_dropout", Fixed::Zero)],
    defaults: Defaults {
        vocab_size: 32_000,
        hidden_size: 4096,
        intermediate_size: 11_008,
        num_hidden_layers: 32,
        num_attention_heads: 32,
        num_key_value_heads: None,
        head_dim: None,
        max_position_embeddings: 2048,
        type_vocab_size: 0,
        activation: &["silu"],
        norm_eps: 1e-6,
        rope_theta: 10_000.0,
        local_rope_theta: None,
        query_pre_attn_scalar: None,
        attention_softcap: None,
        logit_softcap: None,
        tie_word_embeddings: false,
        sliding_window: None,
        windows: Windows::Never,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        classifier_dropout: None,
        pad_token_id: None,
    },
};

/// An encoder with a classifier, of BERT's sizes. It has neither a name nor modules.
pub(super) const ENCODER: Description = Description {
    task: Task::SequenceClassification,
    blocks: "",
    embeddings: &[],
    block: &[],
    head: &[],
    weightless_leaves: WeightlessLeaves {
        embeddings: &[],
        block: &[],
        head: &[],
    },
    built_as: None,
    releases: Some(Releases::ENCODER),
    fixed: &[],
    defaults: Defaults {
        vocab_size: 30_522,
        hidden_size: 768,
        intermediate_size: 3072,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        max_position_embeddings: 512,
        type_vocab_size: 2,
        activation: &["gelu"],
        norm_eps: 1e-12,
        hidden_dropout: 0.1,
        attention_dropout: 0.1,
        pad_token_id: Some(0),
        ..DECODER.defaults
    },
    ..DECODER
};
