//! What runs cells.

use super::Stack;

/// What runs a cell and measures it. The stack says whose memory is meant; a stack without an engine is predicted alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Our trainer.
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
