//! Samples in seeded order, an optimizer step at a time.

use rand::seq::SliceRandom;

use super::{Dataset, Samples};
use crate::model::Config;
use crate::random;
use crate::spec::cell::{Cell, Padding};

/// What one optimizer step sees: up to `gradient_accumulation_steps` micro-batches, whose gradients are summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveBatch {
    pub micro: Vec<MicroBatch>,
    /// What counts of all micro-batches: the tokens that are predicted, or the samples that have labels. The step's loss is
    /// the mean over these.
    pub counted: usize,
}

/// Samples that go through the model together, padded on the right to one length.
///
/// Without labels, that of position `t` is the id at `t + 1`: sample `i` has `lengths[i] - 1` of them, and pads have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// `batch × len` token ids, sample after sample.
    pub ids: Vec<u32>,
    /// Tokens of each sample without its pads, at least 2.
    pub lengths: Vec<u32>,
    /// The label of each sample; empty where the next token is predicted.
    pub labels: Vec<u32>,
    /// The place of each sample in the effective batch, the same however it is cut into micro-batches; dropout masks
    /// are drawn from it.
    pub sample_ids: Vec<u32>,
    /// Number of samples.
    pub batch: usize,
    /// Tokens of each sample with its pads.
    pub len: usize,
}

impl MicroBatch {
    /// What counts: the tokens that are predicted, or the samples that have labels.
    pub fn counted(&self) -> usize {
        if !self.labels.is_empty() {
            return self.labels.len();
        }
        self.lengths.iter().map(|&length| length as usize - 1).sum()
    }
}

/// How micro-batches are padded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The one length of all micro-batches; without it, each is as long as its longest sample.
    fixed: Option<usize>,
    pad: u32,
}

impl Shape {
    pub(super) fn new(cell: &Cell, config: &Config) -> Self {
        // Some checkpoints name a pad that has no embedding; which id fills the gaps is of no consequence.
        let known = config.pad_token_id().filter(|&id| (id as usize) < config.vocab_size());
        Self {
            fixed: (cell.padding == Padding::MaxLength).then_some(cell.max_seq_length),
            pad: known.unwrap_or(0),
        }
    }

    /// Puts samples, given by their indices, into a micro-batch; `first` is the place of the first in its step.
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
            batch: indices.len(),
            len,
        }
    }
}

/// The training's effective batches. Every epoch sees each sample once, in an order of its own that follows from the
/// seed.
///
/// With `max_steps` every effective batch is full: one that the epoch's last samples do not fill takes the rest from the
/// next epoch, so every step costs the same. With `num_train_epochs` the last one of an epoch is smaller instead, so
/// that an epoch is each sample once and no more.
#[derive(Debug)]
pub struct Batches<'a> {
    dataset: &'a Dataset,
    shape: Shape,
    seed: u64,
    batch_size: usize,
    /// Samples in a full effective batch.
    effective: usize,
    order: Vec<u32>,
    /// Samples of `order` that were given already.
    given: usize,
    /// Epochs whose order was drawn.
    epochs: usize,
    steps_left: usize,
    /// Whether a batch may take samples of two epochs.
    wraps: bool,
}

impl<'a> Batches<'a> {
    pub(super) fn new(dataset: &'a Dataset, cell: &Cell, config: &Config) -> Self {
        Self {
            dataset,
            shape: Shape::new(cell, config),
            seed: cell.seed,
            batch_size: cell.batch_size,
            effective: cell.effective_batch_size(),
            order: Vec::new(),
            given: 0,
            epochs: 0,
            steps_left: dataset.steps(cell),
            wraps: cell.max_steps().is_some(),
        }
    }

    /// The samples of the next effective batch.
    fn take_samples(&mut self) -> Vec<u32> {
        let mut samples = Vec::with_capacity(self.effective);
        // A dataset has at least the samples of an effective batch, so this ends.
        while samples.len() < self.effective {
            if self.given == self.order.len() {
                if !samples.is_empty() && !self.wraps {
                    break;
                }
                self.begin_epoch();
            }
            let end = self.order.len().min(self.given + self.effective - samples.len());
            samples.extend_from_slice(&self.order[self.given..end]);
            self.given = end;
        }
        samples
    }

    fn begin_epoch(&mut self) {
        self.order.clear();
        self.order.extend_from_slice(self.dataset.train());
        self.order.shuffle(&mut random::stream(
            self.seed,
            &format!("order of epoch {}", self.epochs),
        ));
        self.given = 0;
        self.epochs += 1;
    }
}

impl Iterator for Batches<'_> {
    type Item = EffectiveBatch;

    fn next(&mut self) -> Option<EffectiveBatch> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let mut first = 0;
        let micro: Vec<MicroBatch> = self
            .take_samples()
            .chunks(self.batch_size)
            .map(|samples| {
                let batch = self.shape.micro_batch(self.dataset.samples(), samples, first);
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
        (self.steps_left, Some(self.steps_left))
    }
}

impl ExactSizeIterator for Batches<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of lengths 2, 3, ..., whose ids are all the sample's number.
    fn dataset(cell: &Cell, count: u32) -> Dataset {
        let mut samples = Samples::default();
        (0..count).for_each(|sample| samples.push(vec![sample; sample as usize + 2]));
        Dataset::new(cell, samples, 0, "test").unwrap()
    }

    fn config() -> Config {
        Config::preset("tiny").unwrap()
    }

    fn cell(batch_size: usize, accumulation: usize) -> Cell {
        Cell {
            batch_size,
            gradient_accumulation_steps: accumulation,
            padding: Padding::Longest,
            max_seq_length: 16,
            max_steps: Some(6),
            ..Cell::default()
        }
    }

    fn first_ids(batch: &EffectiveBatch) -> Vec<u32> {
        let ids = |micro: &MicroBatch| {
            (0..micro.batch)
                .map(|row| micro.ids[row * micro.len])
                .collect::<Vec<_>>()
        };
        batch.micro.iter().flat_map(ids).collect()
    }

    #[test]
    fn an_epoch_sees_every_sample_once_and_each_epoch_has_its_own_order() {
        let cell = Cell {
            max_steps: None,
            num_train_epochs: Some(2.0),
            ..cell(2, 2)
        };
        let data = dataset(&cell, 10);
        assert_eq!(data.steps_per_epoch(&cell), 3);
        let steps: Vec<_> = data.batches(&cell, &config()).map(|batch| first_ids(&batch)).collect();
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
        let cell = cell(2, 2);
        let steps: Vec<_> = dataset(&cell, 10)
            .batches(&cell, &config())
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
    fn a_step_needs_its_samples() {
        let new = |cell: &Cell, count: u32| {
            let mut samples = Samples::default();
            (0..count).for_each(|_| samples.push([1, 2]));
            Dataset::new(cell, samples, 0, "x.txt")
        };
        let error = new(&cell(64, 8), 3).unwrap_err().to_string();
        assert_eq!(
            error,
            "x.txt: a step of `batch_size` × `gradient_accumulation_steps` = 64 × 8 needs 512 samples, and there are 3 to \
             train on; lower one of them or give more data"
        );
        assert!(new(&cell(2, 2), 4).is_ok());
        let held_out = Cell {
            eval_fraction: 0.25,
            ..cell(2, 2)
        };
        assert!(new(&held_out, 5).is_err());
        let epochs = Cell {
            max_steps: None,
            num_train_epochs: Some(1.0),
            ..cell(2, 2)
        };
        assert!(new(&epochs, 3).is_err());
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        let order = |seed| {
            let cell = Cell { seed, ..cell(1, 1) };
            let data = dataset(&cell, 10);
            data.batches(&cell, &config())
                .map(|batch| first_ids(&batch))
                .collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn accumulation_sees_the_samples_of_one_batch() {
        let (whole, parts) = (cell(4, 1), cell(1, 4));
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
    fn samples_are_padded_on_the_right_and_pads_are_not_counted() {
        let mut samples = Samples::default();
        samples.push([5, 6, 7]);
        samples.push([8, 9]);
        let with_pad = |id| {
            let mut config = config();
            if let Config::Llama(config) = &mut config {
                config.pad_token_id = Some(id);
            }
            config
        };
        let config = with_pad(3);
        let longest = Shape::new(&cell(2, 1), &config).micro_batch(&samples, &[1, 0], 4);
        assert_eq!(longest.ids, [8, 9, 3, 5, 6, 7]);
        assert_eq!((longest.batch, longest.len), (2, 3));
        assert_eq!(
            (longest.lengths.clone(), longest.sample_ids.clone()),
            (vec![2, 3], vec![4, 5])
        );
        assert_eq!(longest.counted(), 3);
        let fixed = Cell {
            padding: Padding::MaxLength,
            max_seq_length: 4,
            ..Cell::default()
        };
        // A pad without an embedding is not used.
        let config = with_pad(512);
        let fixed = Shape::new(&fixed, &config).micro_batch(&samples, &[0], 0);
        assert_eq!((fixed.ids, fixed.len), (vec![5, 6, 7, 0], 4));
    }

    #[test]
    fn labels_follow_their_samples() {
        let mut samples = Samples::default();
        (0..6).for_each(|sample| samples.push_labelled([sample; 3], 10 + sample));
        let cell = cell(2, 2);
        let data = Dataset::new(&cell, samples, 0, "test").unwrap();
        for batch in data.batches(&cell, &config()) {
            assert_eq!(batch.counted, 4);
            for micro in &batch.micro {
                let ids = (0..micro.batch).map(|row| micro.ids[row * micro.len]);
                assert_eq!(micro.labels, ids.map(|id| 10 + id).collect::<Vec<_>>());
                assert_eq!(micro.counted(), 2);
            }
        }
    }

    #[test]
    fn epochs_may_be_fractional() {
        let steps = |max_steps, num_train_epochs| {
            let cell = Cell {
                max_steps,
                num_train_epochs,
                ..cell(2, 2)
            };
            let data = dataset(&cell, 10);
            assert_eq!(data.batches(&cell, &config()).len(), data.steps(&cell));
            data.steps(&cell)
        };
        assert_eq!(steps(None, None), 10);
        assert_eq!(steps(Some(4), None), 4);
        assert_eq!(steps(None, Some(2.0)), 6);
        assert_eq!(steps(None, Some(1.5)), 5);
        assert_eq!(steps(None, Some(0.1)), 1);
    }

    #[test]
    fn held_out_samples_are_not_trained_on() {
        let cell = Cell {
            eval_fraction: 0.25,
            ..cell(2, 1)
        };
        let data = dataset(&cell, 10);
        let evaluated: Vec<u32> = data
            .eval_batches(&cell, &config())
            .flat_map(|micro| micro.ids.first().copied())
            .collect();
        assert_eq!(data.eval().len(), 3);
        assert_eq!(evaluated.len(), 2);
        let trained: Vec<u32> = data
            .batches(&cell, &config())
            .flat_map(|batch| first_ids(&batch))
            .collect();
        assert!(data.eval().iter().all(|sample| !trained.contains(sample)));
        assert_eq!(data, dataset(&cell, 10));
    }

    #[test]
    fn both_sides_of_the_split_need_a_sample() {
        let split = |count: usize| {
            let cell = Cell {
                eval_fraction: 0.5,
                ..Cell::default()
            };
            let mut samples = Samples::default();
            (0..count).for_each(|_| samples.push([1, 2]));
            Dataset::new(&cell, samples, 4, "x.txt")
        };
        assert!(split(0).unwrap_err().to_string().contains("x.txt: nothing to train on"));
        assert!(split(1).unwrap_err().to_string().contains("at least one"));
        assert_eq!(split(2).unwrap().eval().len(), 1);
    }
}
