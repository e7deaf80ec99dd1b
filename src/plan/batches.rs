//! The sizes of a training's micro-batches, without their tokens.

use std::sync::Arc;

use super::PlanError;
use crate::{
    arch::ModelConfig,
    data::{DataError, Dataset, EffectiveBatch, MicroBatch},
    options::{Data, DataOptions, Lengths, Padding, Task},
    torch,
};

/// Steps of uneven data in a plan besides the first: the largest.
const LARGEST: usize = 3;

/// Equal micro-batches of a step in a plan. The first allocates the gradients; all after the second are like the second.
const MOST_MICRO_BATCHES: usize = 3;

/// The optimizer steps that decide the memory of training, each with its micro-batches. If all steps are equal, these are
/// the first two, else the first and the largest. Calls `dataset` only if the options do not give the lengths.
///
/// # Errors
/// If the data cannot be read or does not fill a step.
pub fn steps(
    options: &DataOptions,
    config: &ModelConfig,
    dataset: impl FnOnce() -> Result<Arc<Dataset>, DataError>,
) -> Result<Vec<EffectiveBatch>, DataError> {
    let is_even = matches!(&options.data, Data::Synthetic(data)
        if data.lengths == Lengths::Fixed && trained_on(options, data.samples) >= options.effective_batch_size());
    if is_even {
        let micro = vec![full(options, config.task()); options.gradient_accumulation_steps.min(MOST_MICRO_BATCHES)];
        let counted = micro.iter().map(MicroBatch::counted).sum();
        // The first step allocates the optimizer's state.
        let count = options.length.steps().unwrap_or(2).min(2);
        return Ok(vec![EffectiveBatch { micro, counted }; count]);
    }
    let dataset = dataset()?;
    let mut steps = dataset.batches(options, config);
    let first = steps.next();
    let mut others: Vec<EffectiveBatch> = steps.collect();
    let size = |micro: &MicroBatch| (micro.batch * micro.len, micro.counted());
    others.sort_by_key(|step| std::cmp::Reverse(step.micro.iter().map(size).max()));
    others.truncate(LARGEST);
    Ok(first.into_iter().chain(others).collect())
}

/// A micro-batch whose samples all have `max_seq_length` tokens, without their ids.
fn full(options: &DataOptions, task: Task) -> MicroBatch {
    let (batch, len) = (options.batch_size, options.max_seq_length);
    MicroBatch {
        ids: Vec::new(),
        lengths: vec![len as u32; batch],
        labels: match task {
            Task::CausalLm => Vec::new(),
            Task::SequenceClassification => vec![0; batch],
        },
        sample_ids: vec![0; batch],
        batch,
        len,
    }
}

/// Samples to train on.
fn trained_on(options: &DataOptions, samples: usize) -> usize {
    samples - options.held_out(samples).min(samples)
}

/// Equal steps in a plan of the torch stack. The first allocates the optimizer's state; all after the second are like the
/// second.
const MOST_STEPS: usize = 2;
/// The same with a replay of PyTorch's allocator, which finds other gaps after the second step.
const MOST_REPLAYED_STEPS: usize = 3;

/// The same for the torch stack, which takes lengths of a list in turn and random ones in our trainer's order. All steps
/// of uneven data are planned, up to one pass over it. Calls `dataset` only for random lengths.
///
/// # Errors
/// If the data is not synthetic or does not fill a step.
pub fn torch_steps(
    options: &DataOptions,
    config: &ModelConfig,
    is_replayed: bool,
    dataset: impl FnOnce() -> Result<Arc<Dataset>, DataError>,
) -> Result<Vec<Vec<torch::MicroBatchShape>>, PlanError> {
    let Data::Synthetic(data) = &options.data else {
        return Err(PlanError::UnknownLengths);
    };
    let list = match &data.lengths {
        Lengths::Fixed => &[options.max_seq_length][..],
        Lengths::List(list) => list,
        Lengths::Uniform => {
            let pass = trained_on(options, data.samples).div_ceil(options.effective_batch_size());
            return Ok(torch_steps_of(&*dataset()?, pass, options, config));
        }
    };
    let mut lengths = list.iter().cycle().map(|&length| length.min(options.max_seq_length));
    let mut micro = || {
        let lengths: Vec<usize> = lengths.by_ref().take(options.batch_size).collect();
        let longest = lengths.iter().copied().max().unwrap_or(options.max_seq_length);
        let len = match options.padding {
            Padding::MaxLength => options.max_seq_length,
            Padding::Longest => longest,
        };
        torch::MicroBatchShape {
            batch: options.batch_size as u32,
            len: len as u32,
            padded: lengths.iter().any(|&length| length < len),
        }
    };
    let is_even = list.len() == 1;
    let different = list.len().div_ceil(options.effective_batch_size());
    let most = if is_even && !is_replayed {
        MOST_STEPS
    } else {
        MOST_REPLAYED_STEPS.max(different)
    };
    let steps = options.length.steps().unwrap_or(most).min(most);
    let micro_batches = if is_even { MOST_MICRO_BATCHES } else { usize::MAX };
    let micro_batches = options.gradient_accumulation_steps.min(micro_batches);
    let step = |_| (0..micro_batches).map(|_| micro()).collect();
    Ok((0..steps).map(step).collect())
}

/// The first `most` steps of a dataset.
fn torch_steps_of(
    dataset: &Dataset,
    most: usize,
    options: &DataOptions,
    config: &ModelConfig,
) -> Vec<Vec<torch::MicroBatchShape>> {
    let steps = dataset.batches(options, config).take(most);
    let shape = |micro: &MicroBatch| torch::MicroBatchShape {
        batch: micro.batch as u32,
        len: micro.len as u32,
        padded: micro.lengths.iter().any(|&length| (length as usize) < micro.len),
    };
    steps.map(|step| step.micro.iter().map(shape).collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::options::{Synthetic, TrainingLength};

    fn options(lengths: Lengths, change: impl FnOnce(&mut DataOptions)) -> DataOptions {
        let mut options = DataOptions {
            data: Data::Synthetic(Synthetic { lengths, samples: 64 }),
            model: "tiny".into(),
            max_seq_length: 64,
            padding: Padding::MaxLength,
            batch_size: 1,
            gradient_accumulation_steps: 1,
            length: TrainingLength::Steps(10),
            eval_fraction: 0.0,
            seed: 0,
        };
        change(&mut options);
        options
    }

    fn config() -> ModelConfig {
        crate::arch::Preset::named("tiny").unwrap().config()
    }

    /// The micro-batches of each step, as (samples, tokens with padding, whether there is padding).
    fn torch(options: &DataOptions) -> Vec<Vec<(u32, u32, bool)>> {
        let shape = |micro: &torch::MicroBatchShape| (micro.batch, micro.len, micro.padded);
        let config = config();
        let steps = torch_steps(options, &config, true, || load(options, &config)).unwrap();
        steps.iter().map(|step| step.iter().map(shape).collect()).collect()
    }

    fn without_replay(options: &DataOptions) -> Vec<Vec<torch::MicroBatchShape>> {
        let config = config();
        torch_steps(options, &config, false, || load(options, &config)).unwrap()
    }

    fn load(options: &DataOptions, config: &ModelConfig) -> Result<Arc<Dataset>, DataError> {
        crate::data::load(options, config, Path::new("")).map(Arc::new)
    }

    #[test]
    fn equal_steps_are_planned_a_few_times() {
        let even = |steps, accumulation| {
            options(Lengths::Fixed, |options| {
                (options.length, options.batch_size) = (TrainingLength::Steps(steps), 2);
                options.gradient_accumulation_steps = accumulation;
            })
        };
        assert_eq!(torch(&even(1, 1)), [[(2, 64, false)]]);
        assert_eq!(torch(&even(100, 1)), [[(2, 64, false)]; 3]);
        assert_eq!(without_replay(&even(100, 1)).len(), MOST_STEPS);
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
            options(Lengths::List(vec![10, 20, 100]), |options| {
                (options.length, options.batch_size, options.padding) = (TrainingLength::Steps(3), 2, padding);
            })
        };
        // 100 is cut to max_seq_length.
        let longest = [[(2, 20, true)], [(2, 64, true)], [(2, 64, true)]];
        assert_eq!(torch(&listed(Padding::Longest)), longest);
        assert_eq!(torch(&listed(Padding::MaxLength)), [[(2, 64, true)]; 3]);
        let uneven = without_replay(&listed(Padding::Longest));
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
        let options = options(Lengths::List((2..12).collect()), |options| {
            (options.length, options.padding) = (TrainingLength::Steps(50), Padding::Longest);
        });
        let lengths: Vec<u32> = torch(&options).iter().map(|step| step[0].1).collect();
        assert_eq!(lengths, (2..12).collect::<Vec<u32>>());
    }

    #[test]
    fn random_lengths_are_planned_in_our_trainers_order() {
        let options = options(Lengths::Uniform, |options| {
            (options.batch_size, options.gradient_accumulation_steps) = (4, 2);
            (options.length, options.padding) = (TrainingLength::Steps(100), Padding::Longest);
        });
        let config = config();
        let steps = torch(&options);
        assert_eq!(steps.len(), 64 / 8, "one pass over the data");
        let dataset = load(&options, &config).unwrap();
        let ours = dataset.batches(&options, &config).take(8);
        let ours = ours
            .flat_map(|step| step.micro)
            .map(|micro| (4, micro.len as u32, true));
        assert_eq!(steps.concat(), ours.collect::<Vec<_>>());
    }

    #[test]
    fn lengths_that_depend_on_a_tokenizer_are_refused() {
        let options = options(Lengths::Fixed, |options| options.data = Data::Sample);
        let config = config();
        let steps = torch_steps(&options, &config, true, || load(&options, &config));
        assert!(matches!(steps, Err(PlanError::UnknownLengths)));
    }

    #[test]
    fn of_uneven_data_the_first_step_and_the_largest_are_planned() {
        let lengths = Lengths::List(vec![5, 9, 17, 33, 3, 2, 4, 6]);
        let options = options(lengths, |options| {
            (options.length, options.padding) = (TrainingLength::Steps(8), Padding::Longest);
        });
        let config = config();
        let steps = steps(&options, &config, || load(&options, &config)).unwrap();
        assert_eq!(steps.len(), 1 + LARGEST);
        let lengths: Vec<usize> = steps[1..].iter().map(|step| step.micro[0].len).collect();
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        for micro in steps.iter().flat_map(|step| &step.micro) {
            assert_eq!((micro.batch, micro.counted()), (1, micro.len - 1));
        }
    }

    #[test]
    fn too_few_samples_for_a_step_are_read_and_not_made_up() {
        let options = options(Lengths::Fixed, |options| options.batch_size = 100);
        let config = config();
        assert!(steps(&options, &config, || load(&options, &config)).is_err());
    }
}
