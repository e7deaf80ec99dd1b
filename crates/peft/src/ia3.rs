//! `adapter_config.json` of IA3.

use serde::{Deserialize, Serialize};

use super::{formats::SavedTensor, targets::Targets};

/// The factors of outputs, `[output features, 1]`, or of inputs, `[1, input features]`.
pub const IA3: &str = "ia3_l";

/// The keys of PEFT's `IA3Config`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ia3Config {
    /// The modules whose inputs are scaled; the outputs of the others are.
    pub feedforward_modules: Option<Targets>,
    pub(super) fan_in_fan_out: bool,
    pub(super) init_ia3_weights: bool,
}

/// PEFT's defaults.
impl Default for Ia3Config {
    fn default() -> Self {
        Self {
            feedforward_modules: None,
            fan_in_fan_out: false,
            init_ia3_weights: true,
        }
    }
}

impl Ia3Config {
    /// The modules whose inputs are scaled, of these modules with their tensors' shapes.
    pub(super) fn feedforward(modules: &[(&str, &[usize])]) -> Targets {
        let scaled = modules.iter().filter(|(_, shape)| shape.first() == Some(&1));
        Targets::Names(scaled.map(|(name, _)| (*name).to_owned()).collect())
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors() -> &'static [SavedTensor] {
        &[SavedTensor {
            name: IA3,
            dims: 2,
            rank_at: None,
        }]
    }
}
