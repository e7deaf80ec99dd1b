//! Llama: transformers' `LlamaForCausalLM`.

use super::base::DECODER;
use crate::description::Description;
use crate::releases::{Gap, Releases};

pub(crate) const FAMILY: Description = Description {
    model_type: "llama",
    class: "Llama",
    returns_cache: true,
    releases: Some(Releases {
        oldest: 30,
        own_angles_until: 43,
        kept_angles_until: 41,
        taken_out_angles_until: 38,
        repeated_flash_heads_until: 0,
        first_code_until: 31,
        sdpa_from: 36,
        flash_from: 34,
        // It is of all positions, for every batch.
        gap: Some(Gap {
            from: 38,
            until: 40,
            what: "the causal mask",
            nearest: ["4.37.2", "4.40.0"],
        }),
        ..Releases::SINCE_4_48
    }),
    keys: &["attention_bias", "mlp_bias"],
    ..DECODER
};
