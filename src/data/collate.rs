//! Micro-batches: samples that go through the model together, padded to one length.

use super::Samples;
use crate::{
    arch::ModelConfig,
    kernels::Sequences,
    options::{DataOptions, Padding},
};

/// The samples of one optimizer step: up to `gradient_accumulation_steps` micro-batches, whose gradients are summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveBatch {
    /// The micro-batches in order.
    pub micro: Vec<MicroBatch>,
    /// Predicted tokens, or labelled samples, of all micro-batches. The step's loss is the mean over these.
    pub counted: usize,
}

/// Samples that go through the model together, each padded on the right.
///
/// Without labels, the target of a token is the next id of its sequence: sequence `i` has `lengths[i] - 1` targets, and
/// padding has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// Token ids, sequence after sequence; none in a plan.
    pub ids: Vec<u32>,
    /// The sequences, with padding.
    pub sequences: Sequences,
    /// Tokens of each sequence without its padding, at least 2.
    pub lengths: Vec<u32>,
    /// The label of each sample; empty if the model predicts the next token.
    pub labels: Vec<u32>,
    /// The index of each sequence's sample in the effective batch, which does not depend on the size of micro-batches.
    /// Dropout masks follow from it.
    pub sample_ids: Vec<u32>,
}

impl MicroBatch {
    /// Predicted tokens, or labelled samples.
    pub fn counted(&self) -> usize {
        if !self.labels.is_empty() {
            return self.labels.len();
        }
        self.lengths.iter().map(|&length| length as usize - 1).sum()
    }

    /// The tokens whose next one counts, as indices into [`ids`](Self::ids).
    pub fn predicting(&self) -> impl Iterator<Item = usize> {
        let sequences = self.sequences.iter().zip(&self.lengths);
        sequences.flat_map(|(tokens, &length)| tokens.start..tokens.start + length as usize - 1)
    }
}

/// Pads samples and puts them into micro-batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Collator {
    /// The length of all micro-batches; `None` pads each to its longest sample.
    fixed: Option<usize>,
    pad: u32,
}

impl Collator {
    pub(super) fn new(options: &DataOptions, config: &ModelConfig) -> Self {
        // Some checkpoints name a pad that has no embedding. Any id can fill the gaps.
        let known = config.pad_token_id.filter(|&id| (id as usize) < config.vocab_size);
        Self {
            fixed: (options.padding == Padding::MaxLength).then_some(options.max_seq_length),
            pad: known.unwrap_or(0),
        }
    }

    /// A micro-batch of the samples with these indices; `first` is the index of the first in its effective batch.
    pub(super) fn micro_batch(self, samples: &Samples, indices: &[u32], first: u32) -> MicroBatch {
        let rows = || indices.iter().map(|&index| samples.get(index as usize));
        let longest = rows().map(<[u32]>::len).max().unwrap_or(0);
        let len = self.fixed.unwrap_or(longest);
        let mut ids = Vec::with_capacity(indices.len() * len);
        for row in rows() {
            ids.extend_from_slice(row);
            ids.resize(ids.len() + len - row.len(), self.pad);
        }
        MicroBatch {
            ids,
            lengths: rows().map(|row| row.len() as u32).collect(),
            labels: indices
                .iter()
                .filter_map(|&index| samples.label(index as usize))
                .collect(),
            sample_ids: (first..).take(indices.len()).collect(),
            sequences: Sequences::even(indices.len(), len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{config, options};

    #[test]
    fn samples_are_padded_on_the_right_and_pads_are_not_counted() {
        let mut samples = Samples::default();
        samples.push([5, 6, 7]);
        samples.push([8, 9]);
        let with_pad = |id| {
            let mut config = config();
            config.pad_token_id = Some(id);
            config
        };
        let config = with_pad(3);
        let longest = Collator::new(&options(2, 1), &config).micro_batch(&samples, &[1, 0], 4);
        assert_eq!(longest.ids, [8, 9, 3, 5, 6, 7]);
        assert_eq!(longest.sequences, Sequences::even(2, 3));
        assert_eq!(longest.predicting().collect::<Vec<_>>(), [0, 3, 4]);
        assert_eq!(
            (longest.lengths.clone(), longest.sample_ids.clone()),
            (vec![2, 3], vec![4, 5])
        );
        assert_eq!(longest.counted(), 3);
        let fixed = DataOptions {
            padding: Padding::MaxLength,
            max_seq_length: 4,
            ..options(1, 1)
        };
        // A pad without an embedding is not used.
        let config = with_pad(512);
        let fixed = Collator::new(&fixed, &config).micro_batch(&samples, &[0], 0);
        assert_eq!((fixed.ids, fixed.sequences), (vec![5, 6, 7, 0], Sequences::even(1, 4)));
    }
}
