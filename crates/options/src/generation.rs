//! Text that a model generates between training steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Generation between steps, as an evaluation of answers does: a batch of prompts, one token after the other, with a cache of
/// keys and values. Nothing of it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// The model generates after every so many optimizer steps.
    #[schemars(range(min = 1))]
    pub eval_steps: usize,
    /// Prompts of the batch.
    #[schemars(range(min = 1))]
    pub batch_size: usize,
    /// Tokens of the longest prompt; all are padded to it.
    #[schemars(range(min = 1))]
    pub prompt_tokens: usize,
    /// Tokens that are generated after it.
    #[schemars(range(min = 1, max = 4096))]
    pub max_new_tokens: usize,
}
