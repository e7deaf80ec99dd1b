//! The steps of our trainer in a plan.

use std::cmp::Reverse;
use std::sync::Arc;

use super::planned::Planned;
use super::sequence::{Micro, Sequence};
use crate::{
    arch::ModelConfig,
    data::{DataError, Dataset, EffectiveBatch, MicroBatch},
    kernels::Sequences,
    options::{Data, DataOptions, Lengths, Task},
};

/// Steps of uneven data in a plan besides the first: the largest.
const LARGEST: usize = 3;

/// Equal micro-batches of a step in a plan. The first allocates the gradients; all after the second are like the second.
pub(super) const MOST_MICRO_BATCHES: usize = 3;

/// The optimizer steps that decide the memory of our trainer. If all steps are equal, these are the first two, else the
/// first and the largest. Calls `dataset` only if the options do not give the lengths.
///
/// # Errors
/// If the data cannot be read or does not fill a step.
pub fn steps(
    options: &DataOptions,
    config: &ModelConfig,
    dataset: impl FnOnce() -> Result<Arc<Dataset>, DataError>,
) -> Result<Planned<EffectiveBatch>, DataError> {
    let is_even = matches!(&options.data, Data::Synthetic(data)
        if data.lengths == Lengths::Fixed && trained_on(options, data.samples) >= options.effective_batch_size());
    if is_even {
        let lengths = || vec![options.max_seq_length as u32; options.batch_size];
        let count = options.gradient_accumulation_steps.min(MOST_MICRO_BATCHES);
        let micro = (0..count).map(|_| micro_batch(lengths(), options.max_seq_length, config.task()));
        let step = effective(micro.collect());
        // The first step allocates the optimizer's state.
        let count = options.length.steps().unwrap_or(2).min(2);
        return Ok(Planned::alike(vec![step; count]));
    }
    let dataset = dataset()?;
    let sequence = sequence(&dataset, options, usize::MAX);
    let counted = |micro: &Micro| match config.task() {
        Task::CausalLm => micro.tokens - micro.batch,
        Task::SequenceClassification => micro.batch,
    };
    let size = |micro: &Micro| (micro.size(), counted(micro));
    let mut others: Vec<usize> = (1..sequence.len()).collect();
    others.sort_by_key(|&step| Reverse(sequence.step(step).iter().map(size).max()));
    // Micro-batches after a step's first have gradients to add to.
    let later = |&step: &usize| Some((sequence.step(step).iter().skip(1).map(size).max()?, Reverse(step)));
    let largest_later = others.iter().filter_map(later).max().map(|(_, Reverse(step))| step);
    others.truncate(LARGEST);
    others.extend(largest_later.filter(|step| !others.contains(step)));
    let chosen = (0..sequence.len().min(1)).chain(others);
    let has_texts = !matches!(options.data, Data::Synthetic(_));
    let step = |sequence: &Sequence, step: usize| {
        let micro = sequence.step(step).iter().map(|micro| {
            let tokens = |&sample: &u32| dataset.samples().get(sample as usize).len() as u32;
            let lengths = sequence.samples(micro).iter().map(tokens).collect();
            micro_batch(lengths, micro.len, config.task())
        });
        effective(micro.collect())
    };
    Ok(Planned::chosen(sequence, chosen.collect(), has_texts, step))
}

/// The first `most` steps of a dataset in our trainer's order.
pub(super) fn sequence(dataset: &Dataset, options: &DataOptions, most: usize) -> Sequence {
    let mut sequence = Sequence::default();
    let tokens = |sample| dataset.samples().get(sample as usize).len();
    for step in dataset.order(options).take(most) {
        for samples in step.chunks(options.batch_size) {
            sequence.push(samples, tokens, options.padding, options.max_seq_length);
        }
        sequence.end_step();
    }
    sequence
}

fn effective(micro: Vec<MicroBatch>) -> EffectiveBatch {
    EffectiveBatch {
        counted: micro.iter().map(MicroBatch::counted).sum(),
        micro,
    }
}

/// A micro-batch of samples with these lengths, without their ids.
fn micro_batch(lengths: Vec<u32>, len: usize, task: Task) -> MicroBatch {
    let batch = lengths.len();
    MicroBatch {
        ids: Vec::new(),
        labels: match task {
            Task::CausalLm => Vec::new(),
            Task::SequenceClassification => vec![0; batch],
        },
        sample_ids: vec![0; batch],
        lengths,
        sequences: Sequences::even(batch, len),
    }
}

/// Samples to train on.
pub(super) fn trained_on(options: &DataOptions, samples: usize) -> usize {
    samples - options.held_out(samples).min(samples)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{config, load, options};
    use super::*;
    use crate::options::{Padding, TrainingLength};

    #[test]
    fn of_uneven_data_the_first_step_and_the_largest_are_planned() {
        let lengths = Lengths::List(vec![5, 9, 17, 33, 3, 2, 4, 6]);
        let options = options(lengths, |options| {
            (options.length, options.padding) = (TrainingLength::Steps(8), Padding::Longest);
        });
        let config = config();
        let planned = steps(&options, &config, || load(&options, &config)).unwrap();
        assert_eq!(planned.steps.len(), 1 + LARGEST);
        let lengths: Vec<usize> = planned.steps[1..]
            .iter()
            .map(|step| step.micro[0].sequences.longest())
            .collect();
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        for micro in planned.steps.iter().flat_map(|step| &step.micro) {
            assert_eq!(micro.sequences.count(), 1);
            assert_eq!(micro.counted(), micro.sequences.longest() - 1);
        }
    }

    /// The steps are those that the trainer takes, and the worst is named by its number.
    #[test]
    fn the_worst_batch_is_named_with_its_step() {
        let options = options(Lengths::Uniform, |options| {
            (options.batch_size, options.gradient_accumulation_steps) = (4, 2);
            (options.length, options.padding) = (TrainingLength::Steps(8), Padding::Longest);
        });
        let config = config();
        let dataset = load(&options, &config).unwrap();
        let planned = steps(&options, &config, || Ok(Arc::clone(&dataset))).unwrap();
        let trained: Vec<EffectiveBatch> = dataset.batches(&options, &config).collect();
        let longest = |micro: &MicroBatch| micro.sequences.longest();
        let largest = |step: &EffectiveBatch| step.micro.iter().map(longest).max();
        let worst = planned.worst(None).unwrap();
        let longest = trained.iter().map(largest).max().unwrap();
        assert_eq!(Some(worst.tokens as usize), longest);
        assert_eq!(largest(&trained[worst.step as usize - 1]), longest);
        assert_eq!((worst.batch_size, planned.training_steps()), (4, Some(8)));
        assert!(worst.samples.is_empty(), "nobody knows the samples of synthetic data");
        // The first planned step is the training's first.
        assert_eq!(planned.worst(Some(1)).unwrap().step, 1);
    }

    #[test]
    fn too_few_samples_for_a_step_are_read_and_not_made_up() {
        let options = options(Lengths::Fixed, |options| options.batch_size = 100);
        let config = config();
        assert!(steps(&options, &config, || load(&options, &config)).is_err());
    }
}
