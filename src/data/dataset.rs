//! Samples to train on and to evaluate with.

use std::iter;

use sha2::{Digest, Sha256};

use super::{
    Batches, DataError, Sampler, collate::Collator, micro_batch::MicroBatch, sample_lengths::SampleLengths,
    samples::Samples, token_ids::TokenIds,
};
use crate::{arch::ModelConfig, options::DataOptions, text::hex};

/// Tokenised samples, split into those to train on and those held out.
#[derive(Debug)]
pub struct Dataset {
    sampler: Sampler,
    ids: TokenIds,
    /// One for each sample, or empty.
    labels: Vec<u32>,
    /// The id of separators, if they are asked for.
    separator: Option<u32>,
    sha256: String,
}

impl Dataset {
    /// Splits `samples` into those held out and the others, which must fill a step. `skipped` shorter samples were left out
    /// before; `origin` names the data in errors.
    pub(super) fn new(
        options: &DataOptions,
        samples: Samples,
        separator: Option<u32>,
        skipped: usize,
        origin: &str,
    ) -> Result<Self, DataError> {
        let Samples { lengths, ids, labels } = samples;
        let sampler = Sampler::new(options, lengths, skipped, origin)?;
        Ok(Self {
            sha256: sha256(sampler.lengths(), &ids, &labels)?,
            sampler,
            ids,
            labels,
            separator,
        })
    }

    /// The order of the samples, trained on and held out.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Identifies the data: SHA-256 in hexadecimal over every sample: its length, then its ids, then its label if it has one,
    /// each as four little-endian bytes.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Copies the ids of a sample; `ids` is as long as the sample.
    ///
    /// # Errors
    /// The temporary file of the ids cannot be read.
    pub fn read(&self, sample: u32, ids: &mut [u32]) -> Result<(), DataError> {
        self.ids.read(self.sampler.lengths().range(sample), ids)
    }

    /// The label of a sample, if samples have labels.
    pub fn label(&self, sample: u32) -> Option<u32> {
        self.labels.get(sample as usize).copied()
    }

    /// The effective batches of training, one for each of the sampler's steps.
    pub fn batches(&self, options: &DataOptions, config: &ModelConfig) -> Batches<'_> {
        let collator = Collator::new(options, config, self.separator);
        Batches::new(self, self.sampler.order(options), collator)
    }

    /// The held-out samples in micro-batches, in their own order. They are not packed.
    pub fn eval_batches(
        &self,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> impl Iterator<Item = Result<MicroBatch, DataError>> {
        let collator = Collator::new(options, config, self.separator).unpacked();
        let chunks = self.sampler.held_out().chunks(options.batch_size);
        // A micro-batch of too many tokens becomes several.
        chunks.flat_map(move |samples| match collator.micro_batches(self, samples) {
            Ok(micro) => micro.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }
}

/// The hash of [`Dataset::sha256`].
fn sha256(lengths: &SampleLengths, ids: &TokenIds, labels: &[u32]) -> Result<String, DataError> {
    let mut hash = Sha256::new();
    let mut labels = labels.iter();
    let mut bytes = Vec::new();
    let samples = (0..lengths.len()).map(|sample| lengths.tokens(sample as u32));
    ids.for_each(samples, |ids| {
        let tokens = ids.len() as u32;
        let words = iter::once(&tokens).chain(ids).chain(labels.next());
        bytes.clear();
        bytes.extend(words.flat_map(|word| word.to_le_bytes()));
        hash.update(&bytes);
    })?;
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{config, options, samples_of};
    use super::*;

    fn hash_of(samples: &[(&[u32], Option<u32>)]) -> String {
        let Samples { lengths, ids, labels } = samples_of(samples.iter().copied());
        sha256(&lengths, &ids, &labels).unwrap()
    }

    #[test]
    fn ids_in_a_file_make_the_same_batches() {
        let options = options(2, 2);
        let folder = tempfile::tempdir().unwrap();
        let dataset = |ids| {
            let mut samples = Samples {
                ids,
                ..Samples::new(folder.path())
            };
            for sample in 0..20 {
                let ids: Vec<u32> = (sample..2 * sample + 2).collect();
                samples.push(&ids, Some(sample % 3)).unwrap();
            }
            Dataset::new(&options, samples.finish(None).unwrap(), None, 0, "test").unwrap()
        };
        let in_memory = dataset(TokenIds::new(folder.path()));
        let in_file = dataset(TokenIds::new(folder.path()).at_most_in_memory(7));
        assert_eq!(in_file.sha256(), in_memory.sha256());
        let batches = |data: &Dataset| {
            data.batches(&options, &config())
                .map(Result::unwrap)
                .collect::<Vec<_>>()
        };
        assert_eq!(batches(&in_file), batches(&in_memory));
    }

    #[test]
    fn the_hash_knows_labels() {
        let labelled = |label| hash_of(&[(&[1, 2], label)]);
        assert_eq!(labelled(Some(1)), labelled(Some(1)));
        assert_ne!(labelled(Some(1)), labelled(Some(0)));
        assert_ne!(labelled(Some(0)), labelled(None));
    }

    #[test]
    fn the_hash_knows_ids_and_where_samples_end() {
        let hash = |all: &[&[u32]]| hash_of(&all.iter().map(|ids| (*ids, None)).collect::<Vec<_>>());
        assert_eq!(hash(&[&[1, 2], &[3]]), hash(&[&[1, 2], &[3]]));
        assert_ne!(hash(&[&[1, 2], &[3]]), hash(&[&[1], &[2, 3]]));
        assert_ne!(hash(&[&[1, 2]]), hash(&[&[1, 3]]));
        // printf '\x01\0\0\0\x07\0\0\0' | sha256sum
        assert_eq!(
            hash(&[&[7]]),
            "f0e6dfdca14da812bd3febae22fe83f4f7ea295365ca71128ed6502c9847b92e"
        );
    }
}
