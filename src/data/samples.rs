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
    pub(super) ids: TokenIds,
    /// One for each sample, or empty.
    pub(super) labels: Vec<u32>,
}

impl Samples {
    /// No samples. If there will be many, their ids lie in a temporary file in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            lengths: SampleLengths::default(),
            targets: SampleTargets::default(),
            ids: TokenIds::new(folder),
            labels: Vec::new(),
        }
    }

    /// Adds a sample. Either all samples have labels, or none has.
    ///
    /// # Errors
    /// The temporary file cannot be made or written.
    pub(super) fn push(&mut self, sample: Tokenised) -> Result<(), DataError> {
        let Tokenised { ids, targets, label } = sample;
        self.ids.extend(ids)?;
        self.targets.push(self.lengths.len(), targets);
        // A sample is far below 2^32 tokens: its text is bounded.
        self.lengths.push(ids.len() as u32);
        self.labels.extend(label);
        Ok(())
    }

    /// Ends the adding. Replaces each label by its entry in `numbers`, if there are any.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn finish(mut self, numbers: Option<&[u32]>) -> Result<Self, DataError> {
        if let Some(numbers) = numbers {
            self.labels
                .iter_mut()
                .for_each(|label| *label = numbers[*label as usize]);
        }
        self.ids.finish()?;
        self.lengths.shrink();
        self.targets.shrink();
        self.labels.shrink_to_fit();
        Ok(self)
    }
}
