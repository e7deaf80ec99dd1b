//! `adapter_config.json` of VeRA.

use options::{Bias, VeraOptions};
use serde::{Deserialize, Serialize};

use super::formats::SavedTensor;

/// VeRA's vector of the outputs, `[output features]`.
pub const VERA_B: &str = "vera_lambda_b";
/// VeRA's vector between the factors, `[rank]`.
pub const VERA_D: &str = "vera_lambda_d";
/// VeRA's factors, which belong to no module: `[rank, most input features]` and `[most output features, rank]`.
pub const VERA_SHARED: [&str; 2] = ["vera_A", "vera_B"];

/// The keys of PEFT's `VeraConfig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VeraConfig {
    /// Rank of the factors.
    pub r: usize,
    /// The factors follow from it.
    pub projection_prng_key: u64,
    /// True if the factors are among the tensors.
    pub save_projection: bool,
    /// Dropout on the adapter's input while it was trained.
    pub vera_dropout: f64,
    /// Start value of the vector between the factors.
    pub d_initial: f64,
    pub(super) fan_in_fan_out: bool,
    pub(super) bias: Bias,
    pub(super) init_weights: bool,
}

/// PEFT's defaults.
impl Default for VeraConfig {
    fn default() -> Self {
        Self::new(&VeraOptions::new(256))
    }
}

impl VeraConfig {
    pub(super) fn new(vera: &VeraOptions) -> Self {
        Self {
            r: vera.rank,
            projection_prng_key: vera.projection_prng_key,
            save_projection: vera.save_projection,
            vera_dropout: vera.dropout,
            d_initial: vera.d_initial,
            fan_in_fan_out: false,
            bias: Bias::None,
            init_weights: true,
        }
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors() -> &'static [SavedTensor] {
        const fn vector(name: &'static str, rank_at: Option<usize>) -> SavedTensor {
            SavedTensor { name, dims: 1, rank_at }
        }
        const TENSORS: [SavedTensor; 2] = [vector(VERA_B, None), vector(VERA_D, Some(0))];
        &TENSORS
    }
}
