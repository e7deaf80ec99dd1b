//! Trained tokens that stand before those of each sequence.

use super::{param::Param, prefix::Prefix, prompt::Prompt};

/// Virtual tokens of a decoder.
#[derive(Debug)]
pub enum VirtualTokens {
    /// Embeddings, which go through all blocks.
    Prompt(Prompt),
    /// Keys and values of each block.
    Prefix(Prefix),
}

impl VirtualTokens {
    /// What is trained of them.
    pub fn embeddings(&mut self) -> &mut Param {
        match self {
            Self::Prompt(prompt) => &mut prompt.embeddings,
            Self::Prefix(prefix) => &mut prefix.embeddings,
        }
    }
}
