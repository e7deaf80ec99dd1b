//! The options of prefix tuning.

/// Options of prefix tuning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixTuningOptions {
    /// Virtual tokens before each sequence.
    pub num_virtual_tokens: usize,
}
