//! What runs cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Stack;

/// What runs a cell and measures it. The stack says whose memory is meant; a stack without an engine is predicted alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Our trainer.
    #[default]
    Expctl,
}

impl Engine {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expctl => "expctl",
        }
    }
}

impl Stack {
    /// What runs cells of this stack; `None` if nothing does.
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::Candle => Some(Engine::Expctl),
            Self::Torch => None,
        }
    }
}
