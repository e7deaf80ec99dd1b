//! Samples, split into those to train on and those held out.

use rand::seq::SliceRandom;

use super::{Batches, DataError, Order, Samples, collate::Collator, micro_batch::MicroBatch};
use crate::{
    arch::ModelConfig,
    options::{DataOptions, TrainingLength},
    random,
};

/// Samples to train on and to evaluate with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    samples: Samples,
    /// Indices of the samples to train on, ascending.
    train: Vec<u32>,
    /// Indices of the samples held out, ascending.
    eval: Vec<u32>,
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
        let Ok(count) = u32::try_from(samples.len()) else {
            return Err(DataError::TooMany { origin: origin.into() });
        };
        if count == 0 {
            return Err(DataError::Empty {
                origin: origin.into(),
                skipped,
            });
        }
        let (train, eval) = split(count, options)?;
        if train.len() < options.effective_batch_size() {
            return Err(DataError::TooFew {
                origin: origin.into(),
                batch_size: options.batch_size,
                accumulation: options.gradient_accumulation_steps,
                samples: train.len(),
            });
        }
        Ok(Self {
            sha256: samples.sha256(),
            samples,
            train,
            eval,
            separator,
        })
    }

    /// All samples, trained on and held out.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Indices into [`samples`](Self::samples) of those trained on, ascending.
    pub fn train(&self) -> &[u32] {
        &self.train
    }

    /// Indices into [`samples`](Self::samples) of those held out; empty without `eval_fraction`.
    pub fn eval(&self) -> &[u32] {
        &self.eval
    }

    /// Identifies the data: [`Samples::sha256`] over all samples.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Optimizer steps of one epoch; the last may have fewer samples.
    pub fn steps_per_epoch(&self, options: &DataOptions) -> usize {
        self.train.len().div_ceil(options.effective_batch_size())
    }

    /// Optimizer steps of the whole training; epochs are rounded up to a step, as in transformers.
    pub fn steps(&self, options: &DataOptions) -> usize {
        match options.length {
            TrainingLength::Steps(steps) => steps,
            TrainingLength::Epochs(epochs) => (epochs * self.steps_per_epoch(options) as f64).ceil() as usize,
        }
    }

    /// The samples of each step of training, as indices into [`samples`](Self::samples).
    pub fn order(&self, options: &DataOptions) -> Order<'_> {
        Order::new(&self.samples, &self.train, self.steps(options), options)
    }

    /// The effective batches of training, one for each of the [`steps`](Self::steps).
    pub fn batches(&self, options: &DataOptions, config: &ModelConfig) -> Batches<'_> {
        let collator = Collator::new(options, config, self.separator);
        Batches::new(&self.samples, self.order(options), collator)
    }

    /// The held-out samples in micro-batches, in their own order. They are not packed.
    pub fn eval_batches(&self, options: &DataOptions, config: &ModelConfig) -> impl Iterator<Item = MicroBatch> {
        let collator = Collator::new(options, config, self.separator).unpacked();
        let chunks = self.eval.chunks(options.batch_size);
        chunks.flat_map(move |samples| collator.micro_batches(&self.samples, samples))
    }
}

/// Indices of the samples to train on, and of `eval_fraction` of them, rounded up and chosen by the seed; both ascending.
pub(super) fn split(count: u32, options: &DataOptions) -> Result<(Vec<u32>, Vec<u32>), DataError> {
    let samples = count as usize;
    let held_out = options.held_out(samples);
    if held_out >= samples {
        return Err(DataError::EvalFraction {
            fraction: options.eval_fraction,
            samples,
            held_out,
        });
    }
    let mut eval: Vec<u32> = (0..count).collect();
    eval.shuffle(&mut random::stream(options.seed, "held-out samples"));
    let mut train = eval.split_off(held_out);
    eval.sort_unstable();
    train.sort_unstable();
    Ok((train, eval))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::options;

    #[test]
    fn a_step_needs_its_samples() {
        let new = |options: &DataOptions, count: u32| {
            let mut samples = Samples::default();
            (0..count).for_each(|_| samples.push([1, 2]));
            Dataset::new(options, samples, None, 0, "x.txt")
        };
        let error = new(&options(64, 8), 3).unwrap_err().to_string();
        assert_eq!(
            error,
            "x.txt: a step of `batch_size` × `gradient_accumulation_steps` = 64 × 8 needs 512 samples, and there are 3 to \
             train on; lower one of them or give more data"
        );
        assert!(new(&options(2, 2), 4).is_ok());
        let held_out = DataOptions {
            eval_fraction: 0.25,
            ..options(2, 2)
        };
        assert!(new(&held_out, 5).is_err());
        let epochs = DataOptions {
            length: TrainingLength::Epochs(1.0),
            ..options(2, 2)
        };
        assert!(new(&epochs, 3).is_err());
    }

    #[test]
    fn both_sides_of_the_split_need_a_sample() {
        let split = |count: usize| {
            let options = DataOptions {
                eval_fraction: 0.5,
                ..options(1, 1)
            };
            let mut samples = Samples::default();
            (0..count).for_each(|_| samples.push([1, 2]));
            Dataset::new(&options, samples, None, 4, "x.txt")
        };
        assert!(split(0).unwrap_err().to_string().contains("x.txt: nothing to train on"));
        assert!(split(1).unwrap_err().to_string().contains("at least one"));
        assert_eq!(split(2).unwrap().eval().len(), 1);
    }
}
