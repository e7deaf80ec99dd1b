//! VeRA (Kopiczko et al. 2023, arXiv:2310.11454).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Facts, Layer, Method, Of, SavedTensor, Tensor, fixed, key, start};
use crate::invalid::{Invalid, number, probability};

/// VeRA's vector of the outputs, `[output features]`.
pub const VERA_B: &str = "vera_lambda_b";
/// VeRA's vector between the factors, `[rank]`.
pub const VERA_D: &str = "vera_lambda_d";
/// VeRA's factors, which belong to no module: `[rank, most input features]` and `[most output features, rank]`.
pub const VERA_SHARED: [&str; 2] = ["vera_A", "vera_B"];

pub(super) const FACTS: Facts = Facts {
    title: "VeRA",
    peft_type: "VERA",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: false,
    keys: &["rank", "vera", "adapter_dtype"],
    fields: &[
        key("r", "rank").default("256").decides().field(),
        key("projection_prng_key", "vera.projection_prng_key").decides().field(),
        key("save_projection", "vera.save_projection").field(),
        key("vera_dropout", "vera.vera_dropout").field(),
        key("d_initial", "vera.d_initial").field(),
        fixed("fan_in_fan_out", "false"),
        fixed("bias", r#""none""#),
        start("init_weights", "true"),
    ],
    tensors: &[SavedTensor::vector(VERA_B), SavedTensor::vector(VERA_D).rank_at(0)],
};

/// Options of VeRA. rank is that of the shared factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Vera {
    /// Start value of the vector between the factors.
    pub d_initial: f64,
    /// The shared factors follow from it, and are those that PEFT draws.
    pub projection_prng_key: u64,
    /// Save the shared factors with the vectors. Without, PEFT draws them from the key when it loads the adapter.
    pub save_projection: bool,
    /// Dropout on the adapter's input.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vera_dropout: f64,
}

impl Default for Vera {
    fn default() -> Self {
        Self {
            d_initial: 0.1,
            projection_prng_key: 0,
            save_projection: true,
            vera_dropout: 0.0,
        }
    }
}

impl Method for Vera {
    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        vec![Tensor::new(VERA_B, [layer.rows]), Tensor::new(VERA_D, [layer.rank])]
    }

    fn dropout(&self) -> f64 {
        self.vera_dropout
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        let start = self.d_initial;
        found.extend(probability("vera.vera_dropout", self.vera_dropout).err());
        let holds = start.is_finite() && start.abs() <= 1e3;
        found.extend(number("vera.d_initial", start, holds, "from -1000 to 1000").err());
        if self.projection_prng_key > u64::from(u32::MAX) {
            let message = "PyTorch's generator takes the lower 32 bits of a key alone";
            let invalid = Invalid::new("vera.projection_prng_key", message);
            found.push(invalid.help(format!("use a key of at most {}", u32::MAX)));
        }
    }
}
