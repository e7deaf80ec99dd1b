//! The sizes of a training's micro-batches, without their tokens.

use std::sync::Arc;

use super::PlanError;
use crate::{
    data::{DataError, Dataset, EffectiveBatch},
    model::Config,
    spec::cell::{Cell, Data, Lengths, Padding, Task},
    torch,
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

/// The most equal steps that the torch stack is planned with: the first makes the optimizer's state, and all that is alive in
/// those after it is alive in the second.
const MOST_STEPS: usize = 2;
/// The same where PyTorch's allocator is replayed, which finds other gaps after the second.
const MOST_REPLAYED_STEPS: usize = 3;

/// The same for the torch stack, whose micro-batches are those of synthetic data: its samples in turn.
///
/// # Errors
/// Where the lengths are not in the cell.
pub fn torch_steps(cell: &Cell, is_replayed: bool) -> Result<Vec<Vec<torch::MicroBatchShape>>, PlanError> {
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
        torch::MicroBatchShape {
            batch: cell.batch_size as u32,
            len: len as u32,
            padded: lengths.iter().any(|&length| length < len),
        }
    };
    let is_even = list.len() == 1;
    let different = list.len().div_ceil(cell.effective_batch_size());
    let most = if is_even && !is_replayed {
        MOST_STEPS
    } else {
        MOST_REPLAYED_STEPS.max(different)
    };
    let steps = cell.max_steps().unwrap_or(most).min(most);
    let micro_batches = if is_even { MOST_MICRO_BATCHES } else { usize::MAX };
    let micro_batches = cell.gradient_accumulation_steps.min(micro_batches);
    let step = |_| (0..micro_batches).map(|_| micro()).collect();
    Ok((0..steps).map(step).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::spec::cell::Synthetic;

    fn cell(lengths: Lengths, change: impl FnOnce(&mut Cell)) -> Cell {
        let mut cell = Cell {
            model: "tiny".into(),
            max_seq_length: 64,
            data: Data::Synthetic(Synthetic { lengths, samples: 64 }),
            ..Cell::default()
        };
        change(&mut cell);
        cell
    }

    /// The micro-batches of each step, as (samples, tokens with padding, whether there is padding).
    fn torch(cell: &Cell) -> Vec<Vec<(u32, u32, bool)>> {
        let told = |micro: &torch::MicroBatchShape| (micro.batch, micro.len, micro.padded);
        let steps = torch_steps(cell, true).unwrap();
        steps.iter().map(|step| step.iter().map(told).collect()).collect()
    }

    fn load(cell: &Cell, config: &Config) -> Result<Arc<Dataset>, DataError> {
        crate::data::load(cell, config, Path::new("")).map(Arc::new)
    }

    #[test]
    fn equal_steps_are_planned_a_few_times() {
        let even = |steps, accumulation| {
            cell(Lengths::Fixed, |cell| {
                (cell.max_steps, cell.batch_size) = (Some(steps), 2);
                cell.gradient_accumulation_steps = accumulation;
            })
        };
        assert_eq!(torch(&even(1, 1)), [[(2, 64, false)]]);
        assert_eq!(torch(&even(100, 1)), [[(2, 64, false)]; 3]);
        assert_eq!(torch_steps(&even(100, 1), false).unwrap().len(), MOST_STEPS);
        assert_eq!(torch(&even(1, 2)), [[(2, 64, false); 2]]);
        assert_eq!(
            torch(&even(1, 100)),
            [[(2, 64, false); 3]],
            "the others find what the second found"
        );
    }

    #[test]
    fn a_list_is_taken_in_turn_and_padded() {
        let listed = |padding| {
            cell(Lengths::List(vec![10, 20, 100]), |cell| {
                (cell.max_steps, cell.batch_size, cell.padding) = (Some(3), 2, padding);
            })
        };
        // 100 is cut to max_seq_length.
        let longest = [[(2, 20, true)], [(2, 64, true)], [(2, 64, true)]];
        assert_eq!(torch(&listed(Padding::Longest)), longest);
        assert_eq!(torch(&listed(Padding::MaxLength)), [[(2, 64, true)]; 3]);
        let uneven = torch_steps(&listed(Padding::Longest), false).unwrap();
        assert_eq!(uneven.len(), 3, "as with replay");
        let mut single = listed(Padding::Longest);
        (single.batch_size, single.gradient_accumulation_steps) = (1, 3);
        let step = [(1, 10, false), (1, 20, false), (1, 64, false)];
        assert_eq!(
            torch(&single),
            [step; 3],
            "all micro-batches of uneven steps are planned"
        );
    }

    #[test]
    fn each_length_of_a_long_list_is_planned() {
        let cell = cell(Lengths::List((2..12).collect()), |cell| {
            (cell.max_steps, cell.padding) = (Some(50), Padding::Longest);
        });
        let lengths: Vec<u32> = torch(&cell).iter().map(|step| step[0].1).collect();
        assert_eq!(lengths, (2..12).collect::<Vec<u32>>());
    }

    #[test]
    fn unknown_lengths_are_refused() {
        assert!(matches!(
            torch_steps(&cell(Lengths::Uniform, |_| ()), true),
            Err(PlanError::UnknownLengths)
        ));
        assert!(matches!(
            torch_steps(&cell(Lengths::Fixed, |cell| cell.data = Data::Sample), true),
            Err(PlanError::UnknownLengths)
        ));
    }

    #[test]
    fn of_uneven_data_the_first_step_and_the_largest_are_planned() {
        let lengths = Lengths::List(vec![5, 9, 17, 33, 3, 2, 4, 6]);
        let cell = cell(lengths, |cell| {
            (cell.max_steps, cell.padding) = (Some(8), Padding::Longest);
        });
        let config = crate::model::config(&cell.model_options(), Path::new("")).unwrap();
        let steps = steps(&cell, &config, || load(&cell, &config)).unwrap();
        assert_eq!(steps.len(), 1 + LARGEST);
        let lengths: Vec<usize> = steps[1..].iter().map(|step| step[0].len).collect();
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        for micro in steps.iter().flatten() {
            assert_eq!((micro.batch, micro.counted), (1, micro.len - 1));
        }
    }

    #[test]
    fn too_few_samples_for_a_step_are_read_and_not_made_up() {
        let cell = cell(Lengths::Fixed, |cell| cell.batch_size = 100);
        let config = crate::model::config(&cell.model_options(), Path::new("")).unwrap();
        assert!(steps(&cell, &config, || load(&cell, &config)).is_err());
    }
}
