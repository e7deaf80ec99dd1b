//! The key `ia3`: IA3's own options, in PEFT's words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stacks;

/// Options of IA3.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = mark)]
pub struct Ia3 {
    /// The layers of target_modules whose inputs are scaled, by the ends of their names; the outputs of the others are.
    /// Default: PEFT's for the model's family, such as [down_proj].
    pub feedforward_modules: Option<Vec<String>>,
}

/// Writes the stacks of the keys into the schema.
fn mark(schema: &mut schemars::Schema) {
    stacks::mark_below(schema, "ia3.");
}
