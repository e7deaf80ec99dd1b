//! The key `prompt_tuning`: prompt tuning's own options.

use options::PromptInit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stacks;

/// Options of prompt tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = mark)]
pub struct PromptTuning {
    /// Virtual tokens before each sequence, besides the tokens that max_seq_length counts.
    #[schemars(range(min = 1))]
    pub num_virtual_tokens: usize,
    /// Start values: random (normal), or text (the embeddings of init_text's tokens, repeated and cut).
    pub init: PromptInit,
    /// The text of `init: text`.
    pub init_text: Option<String>,
}

impl Default for PromptTuning {
    fn default() -> Self {
        Self {
            num_virtual_tokens: 20,
            init: PromptInit::Random,
            init_text: None,
        }
    }
}

/// Writes the stacks of the keys into the schema.
fn mark(schema: &mut schemars::Schema) {
    stacks::mark_below(schema, "prompt_tuning.");
}
