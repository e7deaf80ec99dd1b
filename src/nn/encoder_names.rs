//! The names that a family of encoders gives to a block's layers.

/// What every family calls a block's attention.
pub const ATTENTION: &str = "attention";

/// What PyTorch's plans call a block's feed-forward layer, which has no name of its own in BERT.
pub const FEED_FORWARD: &str = "ffn";

/// A family's names of a block's layers: those of attention within [`ATTENTION`], the others within the block.
#[derive(Debug)]
pub struct Names {
    /// The projection of queries.
    pub query: &'static str,
    /// The projection of keys.
    pub key: &'static str,
    /// The projection of values.
    pub value: &'static str,
    /// The projection of attention's output.
    pub attention_output: &'static str,
    /// The norm after attention.
    pub attention_norm: &'static str,
    /// The feed-forward layer's first half, before GELU.
    pub intermediate: &'static str,
    /// The feed-forward layer's second half, after GELU.
    pub output: &'static str,
    /// The norm after the feed-forward layer.
    pub output_norm: &'static str,
}
