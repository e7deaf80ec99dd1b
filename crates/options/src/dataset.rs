//! The options of a data set and its batches.

use super::{Data, Packing, Padding};

/// How samples of like lengths come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthGroups {
    /// As transformers' `LengthGroupedSampler`: groups of 50 effective batches, or a fourth of the data if that is
    /// less, each from long to short, and the longest sample first of all.
    MegaBatches,
    /// Groups of so many effective batches, each from long to short.
    Buckets(usize),
}

/// The samples that a cell trains on, and how they become batches.
#[derive(Debug, Clone, PartialEq)]
pub struct DataOptions {
    /// The source of the samples.
    pub data: Data,
    /// The model whose tokenizer reads text: a preset, or a directory in Hugging Face's layout.
    pub model: String,
    /// Longer samples are cut to this many tokens.
    pub max_seq_length: usize,
    /// The length that shorter samples of a micro-batch are padded to.
    pub padding: Padding,
    /// Padded lengths are multiples of this; 1 for any.
    pub pad_to_multiple_of: usize,
    /// How samples are packed into rows; `None` pads each.
    pub packing: Option<Packing>,
    /// Samples in a micro-batch, or packed rows: at most so many.
    pub batch_size: usize,
    /// Micro-batches in an optimizer step, of `batch_size` samples each.
    pub gradient_accumulation_steps: usize,
    /// Tokens of a micro-batch, padding included: at most so many.
    pub max_tokens_per_batch: Option<usize>,
    /// How samples of like lengths come together.
    pub length_groups: Option<LengthGroups>,
    /// The step with the largest micro-batch comes first.
    pub longest_first: bool,
    /// Attention holds its scores, so that long sequences count more than their tokens.
    pub holds_scores: bool,
    /// The end of training.
    pub length: TrainingLength,
    /// Part of the samples that is held out.
    pub eval_fraction: f64,
    /// Synthetic samples, the split and the order follow from it.
    pub seed: u64,
}

/// The number of optimizer steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrainingLength {
    /// This many steps.
    Steps(usize),
    /// This many passes over the training samples, rounded up to a step.
    Epochs(f64),
}

impl TrainingLength {
    /// The number of steps; `None` if it depends on the number of samples.
    pub fn steps(self) -> Option<usize> {
        match self {
            Self::Steps(steps) => Some(steps),
            Self::Epochs(_) => None,
        }
    }

    /// The number of steps if an epoch has so many. Epochs are rounded up to a step, as in transformers'
    /// `Trainer.set_initial_training_values`.
    pub fn steps_of(self, per_epoch: usize) -> usize {
        match self {
            Self::Steps(steps) => steps,
            Self::Epochs(epochs) => (epochs * per_epoch as f64).ceil() as usize,
        }
    }
}

impl DataOptions {
    /// Samples in an optimizer step.
    pub fn effective_batch_size(&self) -> usize {
        self.batch_size.saturating_mul(self.gradient_accumulation_steps)
    }

    /// Tokens of the longest sequence that there may be, padding included.
    pub fn longest_sequence(&self) -> usize {
        match self.packing {
            Some(_) => self.max_seq_length,
            None => {
                let rounded = self.max_seq_length.checked_next_multiple_of(self.pad_to_multiple_of);
                rounded.unwrap_or(usize::MAX)
            }
        }
    }

    /// Samples of `samples` that are held out: `eval_fraction` of them, rounded up.
    pub fn held_out(&self, samples: usize) -> usize {
        (samples as f64 * self.eval_fraction).ceil() as usize
    }
}
