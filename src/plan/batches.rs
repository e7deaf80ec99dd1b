//! The sizes of a training's micro-batches, without their tokens.

use std::sync::Arc;

use super::{PlanError, torch};
use crate::{
    data::{DataError, Dataset, EffectiveBatch},
    model::Config,
    spec::cell::{Cell, Data, Lengths, Padding, Task},
};

/// Steps of uneven data that are planned, beside the first: the largest.
const LARGEST: usize = 3;

/// Equal micro-batches of a step that are planned: the first makes the gradients, and those after the second find the same
/// as it did.
const MOST_MICRO_BATCHES: usize = 3;

/// A micro-batch's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Micro {
    /// Samples.
    pub batch: usize,
    /// Tokens of each with its padding.
    pub len: usize,
    /// Tokens that are predicted, or samples that have labels.
    pub counted: usize,
}

impl Micro {
    /// One whose samples all have `len` tokens.
    pub fn full(cell: &Cell) -> Self {
        let (batch, len) = (cell.batch_size, cell.max_seq_length);
        Self {
            batch,
            len,
            counted: match cell.task {
                Task::CausalLm => batch * (len - 1),
                Task::SequenceClassification => batch,
            },
        }
    }
}

/// The optimizer steps that decide what training takes, each with its micro-batches: the first two where all steps are
/// equal, else the first and the largest. Asks for the data where their lengths are not in the cell.
///
/// # Errors
/// Where the data cannot be read or does not fill a step.
pub fn steps(
    cell: &Cell,
    config: &Config,
    dataset: impl FnOnce() -> Result<Arc<Dataset>, DataError>,
) -> Result<Vec<Vec<Micro>>, DataError> {
    let is_even = matches!(&cell.data, Data::Synthetic(data)
        if data.lengths == Lengths::Fixed && held_in(cell, data.samples) >= cell.effective_batch_size());
    if is_even {
        let step = vec![Micro::full(cell); cell.gradient_accumulation_steps.min(MOST_MICRO_BATCHES)];
        // The first step makes the optimizer's state.
        let count = cell.max_steps().unwrap_or(2).min(2);
        return Ok(vec![step; count]);
    }
    let dataset = dataset()?;
    let sizes = |batch: EffectiveBatch| {
        let micro = batch.micro.iter().map(|micro| Micro {
            batch: micro.batch,
            len: micro.len,
            counted: micro.counted(),
        });
        micro.collect::<Vec<_>>()
    };
    let mut steps = dataset.batches(cell, config).map(sizes);
    let first = steps.next();
    let mut others: Vec<Vec<Micro>> = steps.collect();
    let largest = |step: &Vec<Micro>| step.iter().map(|micro| (micro.batch * micro.len, micro.counted)).max();
    others.sort_by_key(|step| std::cmp::Reverse(largest(step)));
    others.truncate(LARGEST);
    Ok(first.into_iter().chain(others).collect())
}

/// Samples that are trained on.
fn held_in(cell: &Cell, samples: usize) -> usize {
    samples - cell.held_out(samples).min(samples)
}

/// The most steps that the torch stack is planned with.
const MOST_STEPS: usize = 3;

/// The same for the torch stack, whose micro-batches are those of synthetic data: its samples in turn.
///
/// # Errors
/// Where the lengths are not in the cell.
pub fn torch_steps(cell: &Cell) -> Result<Vec<Vec<torch::Micro>>, PlanError> {
    let Data::Synthetic(data) = &cell.data else {
        return Err(PlanError::UnknownLengths);
    };
    let list = match &data.lengths {
        Lengths::Fixed => &[cell.max_seq_length][..],
        Lengths::List(list) => list,
        Lengths::Uniform => return Err(PlanError::UnknownLengths),
    };
    let mut lengths = list.iter().cycle().map(|&length| length.min(cell.max_seq_length));
    let mut micro = || {
        let lengths: Vec<usize> = lengths.by_ref().take(cell.batch_size).collect();
        let longest = lengths.iter().copied().max().unwrap_or(cell.max_seq_length);
        let len = match cell.padding {
            Padding::MaxLength => cell.max_seq_length,
            Padding::Longest => longest,
        };
        torch::Micro {
            batch: cell.batch_size as u32,
            len: len as u32,
            padded: lengths.iter().any(|&length| length < len),
        }
    };
    let different = list.len().div_ceil(cell.effective_batch_size());
    let steps = cell.max_steps().unwrap_or(MOST_STEPS).min(MOST_STEPS.max(different));
    let micro_batches = if list.len() > 1 { usize::MAX } else { MOST_MICRO_BATCHES };
    let micro_batches = cell.gradient_accumulation_steps.min(micro_batches);
    let step = |_| (0..micro_batches).map(|_| micro()).collect();
    Ok((0..steps).map(step).collect())
}
