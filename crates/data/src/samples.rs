//! Tokenised samples before they are split.

use std::path::Path;

use super::{
    DataError, sample_lengths::SampleLengths, targets::SampleTargets, token_ids::TokenIds, tokenise::Tokenised,
};

/// Samples of token ids, in their order.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) lengths: SampleLengths,
    pub(super) targets: SampleTargets,
    pub(super) contents: Contents,
}

/// The ids and the labels of samples whose lengths are known.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) ids: TokenIds,
    /// One for each sample, or empty.
    pub(super) labels: Vec<u32>,
}

impl Contents {
    /// The label of a sample, if samples have labels.
    pub(super) fn label(&self, sample: u32) -> Option<u32> {
        self.labels.get(sample as usize).copied()
    }
}

impl Samples {
    /// No samples. If there will be many, their ids lie in a temporary file in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            lengths: SampleLengths::default(),
            targets: SampleTargets::default(),
            contents: Contents {
                ids: TokenIds::new(folder),
                labels: Vec::new(),
            },
        }
    }

    /// Adds a sample. Either all samples have labels, or none has.
    ///
    /// # Errors
    /// The temporary file cannot be made or written.
    pub(super) fn push(&mut self, sample: Tokenised) -> Result<(), DataError> {
        let Tokenised {
            ids, targets, label, ..
        } = sample;
        self.contents.ids.extend(ids)?;
        self.targets.push(self.lengths.len(), ids.len(), targets);
        // A sample is far below 2^32 tokens: its text is bounded.
        self.lengths.push(ids.len() as u32);
        self.contents.labels.extend(label);
        Ok(())
    }

    /// Ends the adding. Replaces each label by its entry in `numbers`, if there are any.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn finish(mut self, numbers: Option<&[u32]>) -> Result<Self, DataError> {
        if let Some(numbers) = numbers {
            self.contents
                .labels
                .iter_mut()
                .for_each(|label| *label = numbers[*label as usize]);
        }
        self.contents.ids.finish()?;
        self.lengths.shrink();
        self.targets.shrink();
        self.contents.labels.shrink_to_fit();
        Ok(self)
    }
}
