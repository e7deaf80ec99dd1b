//! LayerNorm tuning (Zhao et al. 2023, arXiv:2312.11420). Norms keep the model's format, as in PEFT.

use serde::{Deserialize, Serialize};

use super::interface::{Facts, Method, Of, SavedTensor};

/// A norm's weight, `[features]`.
const WEIGHT: &str = "ln_tuning_layers.weight";
/// A norm's bias, `[features]`.
const BIAS: &str = "ln_tuning_layers.bias";

pub(super) const FACTS: Facts = Facts {
    title: "LayerNorm tuning",
    peft_type: "LN_TUNING",
    mark: None,
    of: Of::Norms,
    is_chosen_by_family: true,
    keys: &[],
    fields: &[],
    tensors: &[SavedTensor::vector(WEIGHT), SavedTensor::vector(BIAS)],
};

/// LayerNorm tuning has no options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LnTuning {}

impl Method for LnTuning {}

/// PEFT's name of a norm's weight or bias where it is tuned.
pub fn tuned(part: &'static str) -> &'static str {
    match part {
        "weight" => WEIGHT,
        "bias" => BIAS,
        other => other,
    }
}
