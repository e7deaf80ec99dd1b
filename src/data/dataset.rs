//! A cell's samples, split into those that are trained on and those that are held out.

use rand::seq::SliceRandom;

use super::{Batches, DataError, MicroBatch, Samples, batches};
use crate::model::Config;
use crate::random;
use crate::spec::cell::Cell;

/// Everything a cell trains on and is evaluated with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    samples: Samples,
    /// Indices of the samples that are trained on, ascending.
    train: Vec<u32>,
    /// Indices of those held out, ascending.
    eval: Vec<u32>,
    skipped: usize,
    sha256: String,
}

impl Dataset {
    /// Splits `samples`: `eval_fraction` of them, rounded up and chosen by the seed, are held out. What is left must fill
    /// a step.
    pub(super) fn new(cell: &Cell, samples: Samples, skipped: usize, origin: &str) -> Result<Self, DataError> {
        let Ok(count) = u32::try_from(samples.len()) else {
            return Err(DataError::TooMany { origin: origin.into() });
        };
        if count == 0 {
            return Err(DataError::Empty {
                origin: origin.into(),
                skipped,
            });
        }
        let held_out = cell.held_out(samples.len());
        if held_out >= samples.len() {
            return Err(DataError::EvalFraction {
                fraction: cell.eval_fraction,
                samples: samples.len(),
                held_out,
            });
        }
        if samples.len() - held_out < cell.effective_batch_size() {
            return Err(DataError::TooFew {
                origin: origin.into(),
                batch_size: cell.batch_size,
                accumulation: cell.gradient_accumulation_steps,
                samples: samples.len() - held_out,
            });
        }
        let mut eval: Vec<u32> = (0..count).collect();
        eval.shuffle(&mut random::stream(cell.seed, "held-out samples"));
        let mut train = eval.split_off(held_out);
        eval.sort_unstable();
        train.sort_unstable();
        Ok(Self {
            sha256: samples.sha256(),
            samples,
            train,
            eval,
            skipped,
        })
    }

    /// All samples, trained on and held out.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Indices into [`samples`](Self::samples) of what is trained on.
    pub fn train(&self) -> &[u32] {
        &self.train
    }

    /// Indices into [`samples`](Self::samples) of what is held out; empty without `eval_fraction`.
    pub fn eval(&self) -> &[u32] {
        &self.eval
    }

    /// Samples that were left out because they have fewer than two tokens.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Identifies the data: [`Samples::sha256`] over all samples.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Optimizer steps that see each training sample once; the last may be smaller than the others.
    pub fn steps_per_epoch(&self, cell: &Cell) -> usize {
        self.train.len().div_ceil(cell.effective_batch_size())
    }

    /// Optimizer steps of the whole training: [`Cell::max_steps`], or `num_train_epochs` rounded up to a step (as
    /// transformers does).
    pub fn steps(&self, cell: &Cell) -> usize {
        cell.max_steps().unwrap_or_else(|| {
            let epochs = cell.num_train_epochs.unwrap_or(1.0);
            (epochs * self.steps_per_epoch(cell) as f64).ceil() as usize
        })
    }

    /// The training's effective batches, one an optimizer step, [`steps`](Self::steps) of them.
    pub fn batches(&self, cell: &Cell, config: &Config) -> Batches<'_> {
        Batches::new(self, cell, config)
    }

    /// The held-out samples in micro-batches, in their own order.
    pub fn eval_batches(&self, cell: &Cell, config: &Config) -> impl Iterator<Item = MicroBatch> {
        let shape = batches::Shape::new(cell, config);
        let size = cell.batch_size;
        self.eval
            .chunks(size)
            .enumerate()
            .map(move |(index, samples)| shape.micro_batch(&self.samples, samples, (index * size) as u32))
    }
}
