//! The key `miss`: MiSS's own options, in PEFT's words.

use options::MissInit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stacks;

/// Options of MiSS. rank is the length of a shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = mark)]
pub struct Miss {
    /// The variant: default, or mini, whose block has mini_r columns that are repeated.
    pub init_weights: MissInit,
    /// Columns of mini's block, a divisor of each layer's outputs. Default: 1.
    #[schemars(range(min = 1))]
    pub mini_r: Option<usize>,
    /// Dropout on the adapter's input.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub miss_dropout: f64,
}

/// Writes the stacks of the keys into the schema.
fn mark(schema: &mut schemars::Schema) {
    stacks::mark_below(schema, "miss.");
}
