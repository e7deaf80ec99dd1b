//! Samples in seeded order, an optimizer step at a time.

use rand::seq::SliceRandom;

use super::{
    Samples,
    collate::{Collator, EffectiveBatch, MicroBatch},
};
use crate::{
    arch::ModelConfig,
    options::{DataOptions, TrainingLength},
    random,
};

/// The samples of each optimizer step. Every epoch sees each sample once, in its own order that follows from the seed.
///
/// [`TrainingLength::Steps`] makes every effective batch full: the last one of an epoch takes the missing samples from
/// the next epoch, so every step costs the same. [`TrainingLength::Epochs`] makes the last one smaller instead.
#[derive(Debug)]
pub struct Order<'a> {
    /// Indices of the samples to train on.
    train: &'a [u32],
    seed: u64,
    /// Samples in a full effective batch.
    effective: usize,
    /// The samples of the epoch that has begun.
    epoch: Vec<u32>,
    /// Samples of `epoch` that earlier batches took.
    taken: usize,
    /// Epochs that have begun.
    epochs: usize,
    steps_left: usize,
    /// True if a batch may take samples of two epochs.
    wraps: bool,
}

impl<'a> Order<'a> {
    pub(super) fn new(train: &'a [u32], steps: usize, options: &DataOptions) -> Self {
        Self {
            train,
            seed: options.seed,
            effective: options.effective_batch_size(),
            epoch: Vec::new(),
            taken: 0,
            epochs: 0,
            steps_left: steps,
            wraps: matches!(options.length, TrainingLength::Steps(_)),
        }
    }

    fn begin_epoch(&mut self) {
        self.epoch.clear();
        self.epoch.extend_from_slice(self.train);
        self.epoch.shuffle(&mut random::stream(
            self.seed,
            &format!("order of epoch {}", self.epochs),
        ));
        self.taken = 0;
        self.epochs += 1;
    }
}

impl Iterator for Order<'_> {
    /// Indices of a step's samples.
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let mut samples = Vec::with_capacity(self.effective);
        // A data set has at least the samples of one effective batch, so this ends.
        while samples.len() < self.effective {
            if self.taken == self.epoch.len() {
                if !samples.is_empty() && !self.wraps {
                    break;
                }
                self.begin_epoch();
            }
            let end = self.epoch.len().min(self.taken + self.effective - samples.len());
            samples.extend_from_slice(&self.epoch[self.taken..end]);
            self.taken = end;
        }
        Some(samples)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.steps_left, Some(self.steps_left))
    }
}

impl ExactSizeIterator for Order<'_> {}

/// The effective batches of training, with the ids of their samples.
#[derive(Debug)]
pub struct Batches<'a> {
    samples: &'a Samples,
    order: Order<'a>,
    collator: Collator,
    batch_size: usize,
}

impl<'a> Batches<'a> {
    pub(super) fn new(samples: &'a Samples, order: Order<'a>, options: &DataOptions, config: &ModelConfig) -> Self {
        Self {
            samples,
            order,
            collator: Collator::new(options, config),
            batch_size: options.batch_size,
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = EffectiveBatch;

    fn next(&mut self) -> Option<EffectiveBatch> {
        let mut first = 0;
        let micro: Vec<MicroBatch> = self
            .order
            .next()?
            .chunks(self.batch_size)
            .map(|samples| {
                let batch = self.collator.micro_batch(self.samples, samples, first);
                first += samples.len() as u32;
                batch
            })
            .collect();
        Some(EffectiveBatch {
            counted: micro.iter().map(MicroBatch::counted).sum(),
            micro,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.order.size_hint()
    }
}

impl ExactSizeIterator for Batches<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{
        Dataset,
        testing::{config, dataset, options},
    };

    fn first_ids(batch: &EffectiveBatch) -> Vec<u32> {
        let ids = |micro: &MicroBatch| {
            let sequences = micro.sequences.iter();
            sequences.map(|tokens| micro.ids[tokens.start]).collect::<Vec<_>>()
        };
        batch.micro.iter().flat_map(ids).collect()
    }

    #[test]
    fn an_epoch_sees_every_sample_once_and_each_epoch_has_its_own_order() {
        let options = DataOptions {
            length: TrainingLength::Epochs(2.0),
            ..options(2, 2)
        };
        let data = dataset(&options, 10);
        assert_eq!(data.steps_per_epoch(&options), 3);
        let steps: Vec<_> = data
            .batches(&options, &config())
            .map(|batch| first_ids(&batch))
            .collect();
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2, 4, 4, 2]);
        let epochs = [steps[..3].concat(), steps[3..].concat()];
        assert_ne!(epochs[0], epochs[1]);
        for mut epoch in epochs {
            epoch.sort_unstable();
            assert_eq!(epoch, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn with_max_steps_every_batch_is_full() {
        let options = options(2, 2);
        let steps: Vec<_> = dataset(&options, 10)
            .batches(&options, &config())
            .map(|batch| first_ids(&batch))
            .collect();
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [4; 6]);
        for epoch in steps.concat()[..20].chunks(10) {
            let mut epoch = epoch.to_vec();
            epoch.sort_unstable();
            assert_eq!(epoch, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        let order = |seed| {
            let options = DataOptions { seed, ..options(1, 1) };
            let data = dataset(&options, 10);
            data.batches(&options, &config())
                .map(|batch| first_ids(&batch))
                .collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn accumulation_sees_the_samples_of_one_batch() {
        let (whole, parts) = (options(4, 1), options(1, 4));
        let data = dataset(&whole, 10);
        for (whole, parts) in data.batches(&whole, &config()).zip(data.batches(&parts, &config())) {
            assert_eq!(first_ids(&whole), first_ids(&parts));
            assert_eq!(whole.counted, parts.counted);
            let sample_ids = |batch: &EffectiveBatch| {
                batch
                    .micro
                    .iter()
                    .flat_map(|micro| micro.sample_ids.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(sample_ids(&whole), sample_ids(&parts));
            assert_eq!(whole.micro.len(), 1);
        }
    }

    #[test]
    fn labels_follow_their_samples() {
        let mut samples = Samples::default();
        (0..6).for_each(|sample| samples.push_labelled([sample; 3], 10 + sample));
        let options = options(2, 2);
        let data = Dataset::new(&options, samples, 0, "test").unwrap();
        for batch in data.batches(&options, &config()) {
            assert_eq!(batch.counted, 4);
            for micro in &batch.micro {
                let ids = micro.sequences.iter().map(|tokens| micro.ids[tokens.start]);
                assert_eq!(micro.labels, ids.map(|id| 10 + id).collect::<Vec<_>>());
                assert_eq!(micro.counted(), 2);
            }
        }
    }

    #[test]
    fn epochs_may_be_fractional() {
        let steps = |length| {
            let options = DataOptions {
                length,
                ..options(2, 2)
            };
            let data = dataset(&options, 10);
            assert_eq!(data.batches(&options, &config()).len(), data.steps(&options));
            data.steps(&options)
        };
        assert_eq!(steps(TrainingLength::Steps(4)), 4);
        assert_eq!(steps(TrainingLength::Epochs(2.0)), 6);
        assert_eq!(steps(TrainingLength::Epochs(1.5)), 5);
        assert_eq!(steps(TrainingLength::Epochs(0.1)), 1);
    }

    #[test]
    fn held_out_samples_are_not_trained_on() {
        let options = DataOptions {
            eval_fraction: 0.25,
            ..options(2, 1)
        };
        let data = dataset(&options, 10);
        let evaluated: Vec<u32> = data
            .eval_batches(&options, &config())
            .flat_map(|micro| micro.ids.first().copied())
            .collect();
        assert_eq!(data.eval().len(), 3);
        assert_eq!(evaluated.len(), 2);
        let trained: Vec<u32> = data
            .batches(&options, &config())
            .flat_map(|batch| first_ids(&batch))
            .collect();
        assert!(data.eval().iter().all(|sample| !trained.contains(sample)));
        assert_eq!(data, dataset(&options, 10));
    }
}
