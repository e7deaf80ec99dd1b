//! Several samples in a row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How samples are packed into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// The token between two samples.
    pub separator: PackingSeparator,
    /// The tokens that a token sees.
    pub attention: PackingAttention,
    /// The way in which TRL packs, on PyTorch's stack.
    pub strategy: PackingStrategy,
}

/// TRL's `packing_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackingStrategy {
    /// Best fit decreasing: whole samples, cut to max_seq_length. A micro-batch is one row without padding.
    Bfd,
    /// All tokens one after the other, cut every max_seq_length tokens; a token sees all before it in its row.
    Wrapped,
}

/// The token between two samples of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackingSeparator {
    /// No token.
    None,
    /// The tokenizer's end of text.
    Eos,
}

/// The tokens that a token of a packed row sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PackingAttention {
    /// Those before it in its sample; positions restart in each sample.
    BlockDiagonal,
    /// Those before it in its row, whosever they are; positions run on.
    Full,
}
