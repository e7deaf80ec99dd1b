//! Phi 3 and 4: transformers' `Phi3ForCausalLM`. Linear layers with the same input are one.

use super::base::DECODER;
use crate::description::{Defaults, Description, Fixed, WeightlessLeaves, Windows};
use crate::module::Bias::Never;
use crate::module::Size::{GateAndUp, Hidden, Intermediate, Queries, QueriesKeysValues};
use crate::module::{linear, rms_norm};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "phi3",
    class: "Phi3",
    block: &[
        rms_norm("input_layernorm", &[Hidden]),
        linear("self_attn.qkv_proj", &[QueriesKeysValues, Hidden], Never),
        linear("self_attn.o_proj", &[Hidden, Queries], Never),
        rms_norm("post_attention_layernorm", &[Hidden]),
        linear("mlp.gate_up_proj", &[GateAndUp, Hidden], Never),
        linear("mlp.down_proj", &[Hidden, Intermediate], Never),
    ],
    weightless_leaves: WeightlessLeaves {
        // Dropout of attention's output and of the feed-forward layer's, and its activation.
        block: &[Hidden, Hidden, Intermediate],
        ..DECODER.weightless_leaves
    },
    rotates_shares: true,
    releases: Some(Releases {
        oldest: 41,
        sdpa_from: 45,
        masks_in_place_from: 42,
        held_attention_until: 48,
        ..Releases::SINCE_4_48
    }),
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
        ..DECODER.defaults
    },
    ..DECODER
};
