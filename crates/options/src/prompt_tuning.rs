//! The options of prompt tuning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Start values of virtual tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptInit {
    /// Normal numbers.
    Random,
    /// The embeddings of a text's tokens.
    Text,
}

/// Options of prompt tuning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTuningOptions {
    /// Virtual tokens before each sequence.
    pub num_virtual_tokens: usize,
    /// The text whose tokens' embeddings are the start values, repeated and cut; random ones without.
    pub init_text: Option<String>,
}
