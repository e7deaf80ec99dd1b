//! The key `vera`: VeRA's own options, in PEFT's words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stacks;

/// Options of VeRA. rank is that of the shared factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = mark)]
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

/// Writes the stacks of the keys into the schema.
fn mark(schema: &mut schemars::Schema) {
    stacks::mark_below(schema, "vera.");
}
