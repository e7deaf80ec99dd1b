//! `adapter_config.json` of LayerNorm tuning.

use serde::{Deserialize, Serialize};

use super::formats::SavedTensor;

/// A norm's weight, `[features]`.
const WEIGHT: &str = "ln_tuning_layers.weight";
/// A norm's bias, `[features]`.
const BIAS: &str = "ln_tuning_layers.bias";

/// PEFT's name of a norm's weight or bias where it is tuned.
pub fn tuned(part: &'static str) -> &'static str {
    match part {
        "weight" => WEIGHT,
        "bias" => BIAS,
        other => other,
    }
}

/// The keys of PEFT's `LNTuningConfig`: none but those of all types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LnTuningConfig {}

impl LnTuningConfig {
    /// The tensors of one norm.
    pub(super) fn tensors() -> &'static [SavedTensor] {
        const fn vector(name: &'static str) -> SavedTensor {
            SavedTensor {
                name,
                dims: 1,
                rank_at: None,
            }
        }
        const TENSORS: [SavedTensor; 2] = [vector(WEIGHT), vector(BIAS)];
        &TENSORS
    }
}
