//! Micro-batches: samples that go through the model together.

use crate::kernels::Sequences;

/// The samples of one optimizer step, in micro-batches whose gradients are summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveBatch {
    /// The micro-batches in order.
    pub micro: Vec<MicroBatch>,
    /// Predicted tokens, or labelled samples, of all micro-batches. The step's loss is the mean over these.
    pub counted: usize,
}

/// Samples that go through the model together, padded on the right or packed.
///
/// Without labels, the target of a token is the next id of its sequence. Padding and separators are no targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// Token ids, sequence after sequence; none in a plan.
    pub ids: Vec<u32>,
    /// The sequences, with padding.
    pub sequences: Sequences,
    /// Tokens of each sequence without its padding, at least 2.
    pub lengths: Vec<u32>,
    /// The tokens between packed samples, ascending.
    pub separators: Vec<u32>,
    /// The label of each sample; empty if the model predicts the next token.
    pub labels: Vec<u32>,
    /// The index of each sequence's first sample in the effective batch, which does not depend on the micro-batches.
    /// Dropout masks follow from it.
    pub sample_ids: Vec<u32>,
}

impl MicroBatch {
    /// Predicted tokens, or labelled samples.
    pub fn counted(&self) -> usize {
        if !self.labels.is_empty() {
            return self.labels.len();
        }
        let targets: usize = self.lengths.iter().map(|&length| length as usize - 1).sum();
        targets - self.separators.len()
    }

    /// Tokens of samples: without padding and separators.
    pub fn real_tokens(&self) -> usize {
        let tokens: usize = self.lengths.iter().map(|&length| length as usize).sum();
        tokens - self.separators.len()
    }

    /// The tokens whose next one counts, as indices into [`ids`](Self::ids).
    pub fn predicting(&self) -> impl Iterator<Item = usize> {
        let sequences = self.sequences.iter().zip(&self.lengths);
        let tokens = sequences.flat_map(|(tokens, &length)| tokens.start..tokens.start + length as usize - 1);
        tokens.filter(|&token| self.separators.binary_search(&(token as u32 + 1)).is_err())
    }
}
