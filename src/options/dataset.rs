//! The options of a data set and its batches.

use super::{Data, Padding};

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
    /// Samples in a micro-batch.
    pub batch_size: usize,
    /// Micro-batches in an optimizer step.
    pub gradient_accumulation_steps: usize,
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
}

impl DataOptions {
    /// Samples in an optimizer step.
    pub fn effective_batch_size(&self) -> usize {
        self.batch_size.saturating_mul(self.gradient_accumulation_steps)
    }

    /// Samples of `samples` that are held out: `eval_fraction` of them, rounded up.
    pub fn held_out(&self, samples: usize) -> usize {
        (samples as f64 * self.eval_fraction).ceil() as usize
    }
}
