//! The key `prefix_tuning`: prefix tuning's own options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stacks;

/// Options of prefix tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = mark)]
pub struct PrefixTuning {
    /// Virtual tokens before each sequence, besides the tokens that max_seq_length counts.
    #[schemars(range(min = 1))]
    pub num_virtual_tokens: usize,
}

impl Default for PrefixTuning {
    fn default() -> Self {
        Self { num_virtual_tokens: 20 }
    }
}

/// Writes the stacks of the keys into the schema.
fn mark(schema: &mut schemars::Schema) {
    stacks::mark_below(schema, "prefix_tuning.");
}
