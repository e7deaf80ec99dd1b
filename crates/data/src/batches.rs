//! Samples in seeded order, an optimizer step at a time.

use base::random;
use kernels::Sequences;
use options::{DataOptions, LengthGroups, TrainingLength};
use rand::seq::SliceRandom;

use super::{
    DataError, Sampler,
    collate::Collator,
    grouping::group_by_length,
    layout::Layout,
    micro_batch::{EffectiveBatch, MicroBatch},
    samples::Contents,
};

/// The samples of each optimizer step. Every epoch sees each sample once, in its own order that follows from the seed.
///
/// [`TrainingLength::Steps`] makes every effective batch full: the last one of an epoch takes the missing samples from
/// the next epoch, so every step costs the same. [`TrainingLength::Epochs`] makes the last one smaller instead.
///
/// With `longest_first`, the step with the largest micro-batch of the training changes nothing but its place: it comes
/// first. Where attention holds its scores, that with the most scores is the next.
#[derive(Debug)]
pub struct Order<'a> {
    shuffled: Shuffled<'a>,
    /// The steps that come first: their places among all, and their samples.
    first: Vec<(usize, Vec<u32>)>,
    /// The place of the next shuffled step.
    place: usize,
    taken: usize,
    steps: usize,
}

impl<'a> Order<'a> {
    /// The steps that these options ask for.
    pub fn new(sampler: &'a Sampler, options: &DataOptions) -> Self {
        let steps = sampler.steps(options);
        let shuffled = Shuffled {
            sampler,
            seed: options.seed,
            effective: options.effective_batch_size(),
            groups: options.length_groups,
            epoch: Vec::new(),
            taken: 0,
            epochs: 0,
            steps_left: steps,
            wraps: matches!(options.length, TrainingLength::Steps(_)),
        };
        let first = match options.longest_first {
            true => largest(&shuffled, &Layout::new(options), options.holds_scores),
            false => Vec::new(),
        };
        Self {
            shuffled,
            first,
            place: 0,
            taken: 0,
            steps,
        }
    }
}

impl Iterator for Order<'_> {
    /// Indices of a step's samples.
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        let taken = self.taken;
        self.taken += 1;
        if let Some((_, step)) = self.first.get(taken) {
            return Some(step.clone());
        }
        loop {
            let step = self.shuffled.next()?;
            let place = self.place;
            self.place += 1;
            if !self.first.iter().any(|(first, _)| *first == place) {
                return Some(step);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.steps.saturating_sub(self.taken);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Order<'_> {}

/// The steps that may need most, with their places: that whose largest micro-batch has the most tokens, padding
/// included, and the one with the most scores if they are held.
fn largest(shuffled: &Shuffled, layout: &Layout, holds_scores: bool) -> Vec<(usize, Vec<u32>)> {
    struct Largest {
        size: fn(&Sequences) -> usize,
        of_step: Option<(usize, usize)>,
        step: (usize, Vec<u32>),
    }
    let sizes: [fn(&Sequences) -> usize; 2] = [Sequences::tokens, Sequences::scores];
    let mut largest = sizes.map(|size| Largest {
        size,
        of_step: None,
        step: (0, Vec::new()),
    });
    let kept = 1 + usize::from(holds_scores);
    for (place, step) in shuffled.clone().enumerate() {
        let micro_batches = shuffled.sampler.lay_out(layout, &step);
        for largest in &mut largest[..kept] {
            let size = |micro: &MicroBatch| ((largest.size)(&micro.sequences), micro.counted());
            let of_step = micro_batches.iter().map(|laid| size(&laid.micro)).max();
            // The first of equal ones.
            if of_step > largest.of_step {
                (largest.of_step, largest.step) = (of_step, (place, step.clone()));
            }
        }
    }
    let mut steps: Vec<(usize, Vec<u32>)> = Vec::new();
    for Largest { of_step, step, .. } in largest {
        if of_step.is_some() && steps.iter().all(|(known, _)| *known != step.0) {
            steps.push(step);
        }
    }
    steps
}

/// The steps as they come from the shuffled epochs.
#[derive(Debug, Clone)]
struct Shuffled<'a> {
    sampler: &'a Sampler,
    seed: u64,
    /// Samples in a full effective batch.
    effective: usize,
    groups: Option<LengthGroups>,
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

impl Shuffled<'_> {
    fn begin_epoch(&mut self) {
        self.epoch.clear();
        self.epoch.reserve_exact(self.sampler.trained());
        self.epoch.extend(self.sampler.train());
        self.epoch.shuffle(&mut random::stream(
            self.seed,
            &format!("order of epoch {}", self.epochs),
        ));
        if let Some(groups) = self.groups {
            let tokens = |sample| self.sampler.lengths().tokens(sample);
            group_by_length(&mut self.epoch, tokens, self.effective, groups);
        }
        self.taken = 0;
        self.epochs += 1;
    }
}

impl Iterator for Shuffled<'_> {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let mut samples = Vec::with_capacity(self.effective);
        // There is a sample at least, so this ends.
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
}

/// The effective batches of training, with the ids of their samples.
#[derive(Debug)]
pub struct Batches<'a> {
    sampler: &'a Sampler,
    contents: &'a Contents,
    order: Order<'a>,
    collator: Collator,
}

impl<'a> Batches<'a> {
    pub(super) fn new(sampler: &'a Sampler, contents: &'a Contents, order: Order<'a>, collator: Collator) -> Self {
        Self {
            sampler,
            contents,
            order,
            collator,
        }
    }
}

impl Iterator for Batches<'_> {
    /// An error if the ids cannot be read.
    type Item = Result<EffectiveBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let samples = self.order.next()?;
        let micro = self.collator.micro_batches(self.sampler, self.contents, &samples);
        Some(micro.map(|micro| EffectiveBatch {
            counted: micro.iter().map(MicroBatch::counted).sum(),
            micro,
        }))
    }

    /// Passes over steps without reading their ids.
    fn nth(&mut self, steps: usize) -> Option<Self::Item> {
        self.order.by_ref().take(steps).for_each(drop);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.order.size_hint()
    }
}

impl ExactSizeIterator for Batches<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::testing::{config, dataset, dataset_of, options};

    fn steps(data: &Dataset, options: &DataOptions) -> Vec<EffectiveBatch> {
        data.batches(options, &config()).collect::<Result<_, _>>().unwrap()
    }

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
        assert_eq!(data.sampler().steps_per_epoch(&options), 3);
        let steps: Vec<_> = steps(&data, &options).iter().map(first_ids).collect();
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
        let steps: Vec<_> = steps(&dataset(&options, 10), &options).iter().map(first_ids).collect();
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
            let steps = steps(&dataset(&options, 10), &options);
            steps.iter().map(first_ids).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn accumulation_sees_the_samples_of_one_batch() {
        let (whole, parts) = (options(4, 1), options(1, 4));
        let data = dataset(&whole, 10);
        for (whole, parts) in steps(&data, &whole).iter().zip(&steps(&data, &parts)) {
            assert_eq!(first_ids(whole), first_ids(parts));
            assert_eq!(whole.counted, parts.counted);
            let sample_ids = |batch: &EffectiveBatch| {
                batch
                    .micro
                    .iter()
                    .flat_map(|micro| micro.sample_ids.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(sample_ids(whole), sample_ids(parts));
            assert_eq!(whole.micro.len(), 1);
        }
    }

    #[test]
    fn labels_follow_their_samples() {
        let options = options(2, 2);
        let samples: Vec<_> = (0..6).map(|sample| ([sample; 3], Some(10 + sample))).collect();
        let data = dataset_of(&options, samples.iter().map(|(ids, label)| (&ids[..], *label)));
        for batch in steps(&data, &options) {
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
            let steps = data.sampler().steps(&options);
            assert_eq!(data.batches(&options, &config()).len(), steps);
            steps
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
            .flat_map(|micro| micro.unwrap().ids.first().copied())
            .collect();
        let held_out = data.sampler().held_out();
        assert_eq!(held_out.len(), 3);
        assert_eq!(evaluated.len(), 2);
        let trained: Vec<u32> = steps(&data, &options).iter().flat_map(first_ids).collect();
        assert!(held_out.iter().all(|sample| !trained.contains(sample)));
        assert_eq!(data.sampler(), dataset(&options, 10).sampler());
    }

    /// Each step's largest micro-batch, in tokens with padding.
    fn largest(data: &Dataset, options: &DataOptions) -> Vec<usize> {
        let tokens = |micro: &MicroBatch| micro.sequences.tokens();
        let steps = steps(data, options).into_iter();
        steps
            .map(|batch| batch.micro.iter().map(tokens).max().unwrap())
            .collect()
    }

    #[test]
    fn the_largest_micro_batch_comes_first_and_the_other_steps_stay() {
        for length in [TrainingLength::Steps(17), TrainingLength::Epochs(2.5)] {
            for seed in 0..20 {
                let plain = DataOptions {
                    length,
                    seed,
                    ..options(3, 2)
                };
                let first = DataOptions {
                    longest_first: true,
                    ..plain.clone()
                };
                let data = dataset(&plain, 20);
                let (plain_steps, first_steps): (Vec<_>, Vec<_>) = (
                    Order::new(data.sampler(), &plain).collect(),
                    Order::new(data.sampler(), &first).collect(),
                );
                let sizes = largest(&data, &first);
                assert_eq!(sizes[0], *sizes.iter().max().unwrap());
                let place = plain_steps.iter().position(|step| *step == first_steps[0]).unwrap();
                let mut others = plain_steps.clone();
                others.remove(place);
                assert_eq!(first_steps[1..], others[..]);
                let mut order = Order::new(data.sampler(), &first);
                for left in (0..plain_steps.len()).rev() {
                    assert_eq!(order.len(), left + 1);
                    order.next();
                }
                assert_eq!((order.len(), order.next()), (0, None));
            }
        }
    }

    #[test]
    fn steps_that_are_passed_over_change_none_after_them() {
        let options = DataOptions {
            longest_first: true,
            ..options(2, 2)
        };
        let data = dataset(&options, 10);
        let all: Vec<_> = steps(&data, &options).iter().map(first_ids).collect();
        for passed in [0, 1, 4, all.len(), all.len() + 1] {
            let rest = data.batches(&options, &config()).skip(passed);
            let rest: Vec<_> = rest.map(|step| first_ids(&step.unwrap())).collect();
            assert_eq!(rest, all[passed.min(all.len())..]);
        }
    }

    #[test]
    fn samples_of_like_lengths_come_together() {
        let padded = |length_groups| {
            let options = DataOptions {
                length_groups,
                length: TrainingLength::Epochs(1.0),
                ..options(4, 1)
            };
            let data = dataset(&options, 64);
            let mut samples = Order::new(data.sampler(), &options).collect::<Vec<_>>().concat();
            samples.sort_unstable();
            assert!(samples.into_iter().eq(0..64));
            let steps = steps(&data, &options).into_iter();
            steps.map(|batch| batch.micro[0].sequences.tokens()).sum::<usize>()
        };
        let plain = padded(None);
        assert!(padded(Some(LengthGroups::MegaBatches)) < plain);
        assert!(padded(Some(LengthGroups::Buckets(8))) < plain);
    }
}
