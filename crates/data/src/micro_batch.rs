//! Micro-batches: samples that go through the model together.

use std::ops::Range;

use kernels::Sequences;

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
    /// The ranges of the tokens that are predicted, as indices into [`ids`](Self::ids), ascending; `None` if all tokens
    /// of samples are.
    pub targets: Option<Vec<Range<u32>>>,
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
        if self.targets.is_some() {
            return self.predicting().count();
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
        tokens.filter(|&token| {
            let next = token as u32 + 1;
            self.separators.binary_search(&next).is_err() && self.is_target(next)
        })
    }

    fn is_target(&self, token: u32) -> bool {
        let holds = |ranges: &Vec<Range<u32>>| {
            let at = ranges.partition_point(|range| range.end <= token);
            ranges.get(at).is_some_and(|range| range.contains(&token))
        };
        self.targets.as_ref().is_none_or(holds)
    }
}
