//! The options of MiSS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of MiSS.
#[derive(Debug, Clone, PartialEq)]
pub struct MissOptions {
    /// Features of a shard.
    pub rank: usize,
    /// Probability of dropout on the adapter's input.
    pub dropout: f64,
    /// Columns of the block if they are repeated, a divisor of each layer's outputs.
    pub mini_r: Option<usize>,
}

/// The variant of MiSS, by PEFT's `init_weights`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissInit {
    /// A block with a column for each output: PEFT's `true`.
    #[default]
    Default,
    /// A block of `mini_r` columns, which are repeated.
    Mini,
    /// Each shard of the weight is multiplied with a block of its own. Not trained yet.
    Bat,
}
