//! Samples of like lengths in a step.

/// How samples of like lengths come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthGroups {
    /// As transformers' `LengthGroupedSampler`: groups of 50 effective batches, or a fourth of the data if that is
    /// less, each from long to short, and the longest sample first of all.
    MegaBatches,
    /// Groups of so many effective batches, each from long to short.
    Buckets(usize),
}
