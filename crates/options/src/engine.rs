//! What runs cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Stack;

/// What runs a cell and measures it. The stack says whose memory is meant; a stack without an engine is predicted alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Our trainer, which is part of this program.
    Candle,
    /// PyTorch with transformers, PEFT and bitsandbytes, in a Python of the user's.
    Python,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 2] = [Self::Candle, Self::Python];

    /// The name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Candle => "candle",
            Self::Python => "python",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// The name in records.
    pub fn name_in_records(self) -> &'static str {
        match self {
            Self::Candle => "expctl",
            Self::Python => "python",
        }
    }

    /// The stack whose cells it runs.
    pub fn stack(self) -> Stack {
        match self {
            Self::Candle => Stack::Candle,
            Self::Python => Stack::Torch,
        }
    }
}

impl Stack {
    /// What runs cells of this stack that name no engine; `None` if nothing does.
    pub fn default_engine(self) -> Option<Engine> {
        match self {
            Self::Candle => Some(Engine::Candle),
            Self::Torch => None,
        }
    }
}
