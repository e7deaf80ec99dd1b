//! Samples, put into micro-batches.

use arch::ModelConfig;
use options::DataOptions;

use super::{DataError, LaidOut, Sampler, layout::Layout, micro_batch::MicroBatch, samples::Contents};

/// Puts samples into micro-batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Collator {
    layout: Layout,
    pad: u32,
    /// The id of separators.
    separator: u32,
}

impl Collator {
    /// Separators, if there are any, have the id `separator`.
    pub(super) fn new(options: &DataOptions, config: &ModelConfig, separator: Option<u32>) -> Self {
        // Some checkpoints name a pad that has no embedding. Any id can fill the gaps.
        let known = config.pad_token_id.filter(|&id| (id as usize) < config.vocab_size);
        Self {
            layout: Layout::new(options),
            pad: known.unwrap_or(0),
            separator: separator.unwrap_or(0),
        }
    }

    /// This collator with a row for each sample.
    pub(super) fn unpacked(self) -> Self {
        Self {
            layout: self.layout.unpacked(),
            ..self
        }
    }

    /// The micro-batches of an effective batch: the samples with these indices.
    ///
    /// # Errors
    /// The ids cannot be read.
    pub(super) fn micro_batches(
        self,
        sampler: &Sampler,
        contents: &Contents,
        samples: &[u32],
    ) -> Result<Vec<MicroBatch>, DataError> {
        let laid_out = sampler.lay_out(&self.layout, samples).into_iter();
        laid_out
            .map(|laid| self.filled(sampler, contents, samples, laid))
            .collect()
    }

    /// A micro-batch with its ids and labels.
    fn filled(
        self,
        sampler: &Sampler,
        contents: &Contents,
        samples: &[u32],
        laid: LaidOut,
    ) -> Result<MicroBatch, DataError> {
        let mut ids = vec![self.pad; laid.micro.sequences.tokens()];
        for &(place, start) in &laid.samples {
            let lengths = sampler.lengths();
            let of_sample = &mut ids[start..start + lengths.tokens(samples[place])];
            contents.ids.read(lengths.range(samples[place]), of_sample)?;
        }
        for &separator in &laid.micro.separators {
            ids[separator as usize] = self.separator;
        }
        let labels = laid
            .samples
            .iter()
            .filter_map(|&(place, _)| contents.label(samples[place]));
        Ok(MicroBatch {
            ids,
            labels: labels.collect(),
            ..laid.micro
        })
    }
}

#[cfg(test)]
mod tests {
    use kernels::Sequences;
    use options::{Packing, PackingAttention, PackingSeparator, PackingStrategy, Padding};

    use super::*;
    use crate::testing::{config, dataset_of, options};

    fn collated(options: &DataOptions, config: &ModelConfig, samples: &[u32]) -> MicroBatch {
        let data = dataset_of(&self::options(1, 1), [(&[5, 6, 7][..], None), (&[8, 9], None)]);
        let mut micro = Collator::new(options, config, Some(4))
            .micro_batches(data.sampler(), data.contents(), samples)
            .unwrap();
        assert_eq!(micro.len(), 1);
        micro.remove(0)
    }

    #[test]
    fn samples_are_padded_on_the_right_and_pads_are_not_counted() {
        let with_pad = |id| {
            let mut config = config();
            config.pad_token_id = Some(id);
            config
        };
        let longest = collated(&options(2, 1), &with_pad(3), &[1, 0]);
        assert_eq!(longest.ids, [8, 9, 3, 5, 6, 7]);
        assert_eq!(longest.sequences, Sequences::even(2, 3));
        assert_eq!(longest.predicting().collect::<Vec<_>>(), [0, 3, 4]);
        assert_eq!(
            (longest.lengths.clone(), longest.sample_ids.clone()),
            (vec![2, 3], vec![0, 1])
        );
        assert_eq!((longest.counted(), longest.real_tokens()), (3, 5));
        let fixed = DataOptions {
            padding: Padding::MaxLength,
            max_seq_length: 4,
            ..options(1, 1)
        };
        // A pad without an embedding is not used.
        let fixed = collated(&fixed, &with_pad(512), &[0]);
        assert_eq!((fixed.ids, fixed.sequences), (vec![5, 6, 7, 0], Sequences::even(1, 4)));
    }

    #[test]
    fn packed_samples_stand_one_after_the_other() {
        let packed = |separator| DataOptions {
            packing: Some(Packing {
                separator,
                attention: PackingAttention::BlockDiagonal,
                strategy: PackingStrategy::Bfd,
            }),
            ..options(2, 1)
        };
        let bare = collated(&packed(PackingSeparator::None), &config(), &[1, 0]);
        assert_eq!((bare.ids, bare.sequences), (vec![5, 6, 7, 8, 9], Sequences::of([3, 2])));
        assert_eq!(bare.sample_ids, [1, 0], "the longest first");
        let separated = collated(&packed(PackingSeparator::Eos), &config(), &[1, 0]);
        assert_eq!(separated.ids, [5, 6, 7, 4, 8, 9]);
        assert_eq!((separated.counted(), separated.real_tokens()), (3, 5));
    }
}
