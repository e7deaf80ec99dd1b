//! Samples to train on and to evaluate with.

use std::iter;

use arch::ModelConfig;
use base::text::hex;
use options::DataOptions;
use records::LeftOut;
use sha2::{Digest, Sha256};

use super::{
    Batches, DataError, Order, Sampler,
    collate::Collator,
    micro_batch::MicroBatch,
    sampler::Found,
    samples::{Contents, Samples},
};

/// Tokenised samples, split into those to train on and those held out.
#[derive(Debug)]
pub struct Dataset {
    sampler: Sampler,
    contents: Contents,
    /// The id of separators, if they are asked for.
    separator: Option<u32>,
    sha256: String,
    left_out: Option<LeftOut>,
    remarks: Vec<String>,
}

impl Dataset {
    /// Splits `samples` into those held out and the others.
    pub(super) fn new(
        options: &DataOptions,
        samples: Samples,
        separator: Option<u32>,
        found: &Found,
    ) -> Result<Self, DataError> {
        let sha256 = sha256(&samples)?;
        let Samples {
            lengths,
            targets,
            contents,
        } = samples;
        let sampler = Sampler::new(options, lengths.into(), targets.into(), found)?;
        Ok(Self {
            left_out: found.skipped.left_out(),
            remarks: found.remarks(&sampler, options).collect(),
            sampler,
            contents,
            separator,
            sha256,
        })
    }

    /// Sentences for the user: what samples are taken for, and what of them is not read or left out.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        self.remarks.iter().cloned()
    }

    /// The numbers of samples to train on that were left out; `None` if there are none.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.left_out
    }

    /// The order of the samples, trained on and held out.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Identifies the data: SHA-256 in hexadecimal over every sample: its length, then its ids, then its label if it
    /// has one, each as four little-endian bytes. If not all its tokens are predicted, 2³² − 1 follows, then the ranges
    /// of those that are.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Copies the ids of a sample; `ids` is as long as the sample.
    ///
    /// # Errors
    /// The temporary file of the ids cannot be read.
    pub fn read(&self, sample: u32, ids: &mut [u32]) -> Result<(), DataError> {
        self.contents.ids.read(self.sampler.lengths().range(sample), ids)
    }

    #[cfg(test)]
    pub(super) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The effective batches of training, one for each of the sampler's steps.
    pub fn batches(&self, options: &DataOptions, config: &ModelConfig) -> Batches<'_> {
        let collator = Collator::new(options, config, self.separator);
        Batches::new(
            &self.sampler,
            &self.contents,
            Order::new(&self.sampler, options),
            collator,
        )
    }

    /// The held-out samples in micro-batches, in their own order. They are not packed.
    pub fn eval_batches(
        &self,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> impl Iterator<Item = Result<MicroBatch, DataError>> {
        self.unpacked(self.sampler.held_out().to_vec(), options, config)
    }

    /// The samples whose forgetting is measured, in micro-batches and in their own order. They are not packed.
    pub fn forgetting_batches(
        &self,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> impl Iterator<Item = Result<MicroBatch, DataError>> {
        self.unpacked(self.sampler.forgetting(), options, config)
    }

    fn unpacked(
        &self,
        samples: Vec<u32>,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> impl Iterator<Item = Result<MicroBatch, DataError>> {
        let collator = Collator::new(options, config, self.separator).unpacked();
        let batch_size = options.batch_size;
        let chunks = (0..samples.len()).step_by(batch_size);
        // A micro-batch of too many tokens becomes several.
        chunks.flat_map(move |start| {
            let samples = &samples[start..samples.len().min(start + batch_size)];
            match collator.micro_batches(&self.sampler, &self.contents, samples) {
                Ok(micro) => micro.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })
    }
}

/// The hash of [`Dataset::sha256`].
fn sha256(samples: &Samples) -> Result<String, DataError> {
    let Samples {
        lengths,
        targets,
        contents,
    } = samples;
    let mut hash = Sha256::new();
    let mut labels = contents.labels.iter().copied();
    let (mut bytes, mut sample) = (Vec::new(), 0);
    let tokens = (0..lengths.len()).map(|sample| lengths.tokens(sample as u32));
    contents.ids.for_each(tokens, |ids| {
        let ranges = targets.of(sample, ids.len());
        let marked = ranges.map(|ranges| iter::once(u32::MAX).chain(ranges.flat_map(|r| [r.start, r.end])));
        let words = iter::once(ids.len() as u32)
            .chain(ids.iter().copied())
            .chain(labels.next());
        let words = words.chain(marked.into_iter().flatten());
        bytes.clear();
        bytes.extend(words.flat_map(u32::to_le_bytes));
        hash.update(&bytes);
        sample += 1;
    })?;
    Ok(hex(&hash.finalize()))
}

#[expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
#[cfg(test)]
mod tests {
    use super::super::testing::{config, options, samples_of};
    use super::super::token_ids::TokenIds;
    use super::super::tokenise::Tokenised;
    use super::*;

    fn hash_of(samples: &[(&[u32], Option<u32>)]) -> String {
        sha256(&samples_of(samples.iter().copied())).unwrap()
    }

    #[test]
    fn ids_in_a_file_make_the_same_batches() {
        let options = options(2, 2);
        let folder = tempfile::tempdir().unwrap();
        let dataset = |ids| {
            let mut samples = Samples::new(folder.path());
            samples.contents.ids = ids;
            for sample in 0..20 {
                let ids: Vec<u32> = (sample..2 * sample + 2).collect();
                let label = Some(sample % 3);
                samples
                    .push(Tokenised {
                        ids: &ids,
                        label,
                        ..Tokenised::default()
                    })
                    .unwrap();
            }
            Dataset::new(&options, samples.finish(None).unwrap(), None, &Found::default()).unwrap()
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
    fn the_hash_knows_what_is_predicted() {
        let hash = |ranges: &[std::ops::Range<u32>]| {
            let mut samples = samples_of([(&[1, 2, 3][..], None)]);
            samples.targets = crate::SampleTargets::default();
            samples.targets.push(0, 3, (!ranges.is_empty()).then_some(ranges));
            sha256(&samples).unwrap()
        };
        assert_eq!(hash(&[]), hash_of(&[(&[1, 2, 3], None)]));
        assert_ne!(hash(&[1..3]), hash(&[]));
        assert_ne!(hash(&[1..3]), hash(&[2..3]));
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
