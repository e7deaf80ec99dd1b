//! The steps of our trainer in a plan.

use std::cmp::Reverse;
use std::sync::Arc;

use arch::ModelConfig;
use data::{DataError, EffectiveBatch, LaidOut, Layout, MicroBatch, Order, Sampler};
use nn::loss::logits_held;
use options::{Data, DataOptions, Lengths, Task};

use super::planned::Planned;
use super::sequence::{Micro, Sequence};

/// Steps of uneven data in a plan besides the first: the largest.
const LARGEST: usize = 3;

/// Equal micro-batches of a step in a plan. The first allocates the gradients; all after the second are like the
/// second.
pub(super) const MOST_MICRO_BATCHES: usize = 3;

/// The optimizer steps that decide the memory of our trainer. If all steps are equal, these are the first two, else the
/// first and the largest. Calls `sampler` only if the options do not give the lengths.
///
/// # Errors
/// If the data cannot be read or does not fill a step.
pub fn steps(
    options: &DataOptions,
    config: &ModelConfig,
    sampler: impl FnOnce() -> Result<Arc<Sampler>, DataError>,
) -> Result<Planned<EffectiveBatch>, DataError> {
    let is_even = matches!(&options.data, Data::Synthetic(data)
        if data.lengths == Lengths::Fixed && trained_on(options, data.samples) >= options.effective_batch_size());
    let layout = Layout::new(options);
    let task = config.task();
    if is_even {
        let count = options.gradient_accumulation_steps.min(MOST_MICRO_BATCHES);
        let lengths = vec![options.max_seq_length; count * options.batch_size];
        let mut micro: Vec<MicroBatch> = without_ids(layout.micro_batches(&lengths), task).collect();
        micro.truncate(MOST_MICRO_BATCHES);
        let step = effective(micro);
        // The first step allocates the optimizer's state.
        let count = options.length.steps().unwrap_or(2).min(2);
        return Ok(Planned::alike(vec![step; count]));
    }
    let sampler = sampler()?;
    let sequence = sequence(&sampler, options, usize::MAX);
    let chosen = chosen(&sequence, task, config.vocab_size);
    let has_texts = !matches!(options.data, Data::Synthetic(_));
    let step = |sequence: &Sequence, step: usize| {
        let micro = sequence
            .step(step)
            .iter()
            .flat_map(|micro| without_ids(sampler.lay_out(&layout, sequence.samples(micro)), task));
        effective(micro.collect())
    };
    Ok(Planned::chosen(sequence, chosen, has_texts, step))
}

/// The first step, the largest, and all that may need more: whatever is left out needs no more than one of these in its
/// place.
fn chosen(sequence: &Sequence, task: Task, vocabulary: usize) -> Vec<usize> {
    let counted = |micro: &Micro| match task {
        Task::CausalLm => micro.predicted,
        Task::SequenceClassification => micro.batch,
    };
    let size = |micro: &Micro| (micro.size(), counted(micro));
    let mut others: Vec<usize> = (1..sequence.len()).collect();
    others.sort_by_key(|&step| Reverse(sequence.step(step).iter().map(size).max()));
    // Memory grows with each of these: gradients to add to, tokens, counted ones, scores, and logits.
    let mut front: Vec<([usize; 7], usize)> = Vec::new();
    for &step in &others {
        for (index, micro) in sequence.step(step).iter().enumerate() {
            let [trained, narrow, wide] = logits_held(counted(micro), vocabulary);
            let is_later = usize::from(index > 0);
            let new = [
                is_later,
                micro.size(),
                counted(micro),
                micro.scores,
                trained,
                narrow,
                wide,
            ];
            let covers = |a: &[usize; 7], b: &[usize; 7]| a.iter().zip(b).all(|(a, b)| a >= b);
            if !front.iter().any(|(known, _)| covers(known, &new)) {
                front.retain(|(known, _)| !covers(&new, known));
                front.push((new, step));
            }
        }
    }
    others.truncate(LARGEST);
    for (_, step) in front {
        if !others.contains(&step) {
            others.push(step);
        }
    }
    (0..sequence.len().min(1)).chain(others).collect()
}

/// The first `most` steps in our trainer's order.
pub(super) fn sequence(sampler: &Sampler, options: &DataOptions, most: usize) -> Sequence {
    let (mut sequence, layout) = (Sequence::default(), Layout::new(options));
    for samples in Order::new(sampler, options).take(most) {
        sequence.push_laid_out(sampler.lay_out(&layout, &samples), &samples, options);
    }
    sequence
}

fn effective(micro: Vec<MicroBatch>) -> EffectiveBatch {
    EffectiveBatch {
        counted: micro.iter().map(MicroBatch::counted).sum(),
        micro,
    }
}

/// Micro-batches without ids, with labels if the task has some.
fn without_ids(laid_out: Vec<LaidOut>, task: Task) -> impl Iterator<Item = MicroBatch> {
    laid_out.into_iter().map(move |laid| MicroBatch {
        labels: match task {
            Task::CausalLm => Vec::new(),
            Task::SequenceClassification => vec![0; laid.samples.len()],
        },
        ..laid.micro
    })
}

/// Samples to train on.
pub(super) fn trained_on(options: &DataOptions, samples: usize) -> usize {
    samples - options.held_out(samples).min(samples)
}

#[cfg(test)]
mod tests {
    use options::{Packing, PackingAttention, PackingSeparator, PackingStrategy, Padding, TrainingLength};

    use super::super::testing::{config, options, sampler, trained};
    use super::*;

    #[test]
    fn of_uneven_data_the_first_step_and_the_largest_are_planned() {
        let lengths = Lengths::List(vec![5, 9, 17, 33, 3, 2, 4, 6]);
        let options = options(lengths, |options| {
            (options.length, options.padding) = (TrainingLength::Steps(8), Padding::Longest);
        });
        let config = config();
        let planned = steps(&options, &config, || sampler(&options, &config)).unwrap();
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
        let planned = steps(&options, &config, || sampler(&options, &config)).unwrap();
        let trained = trained(&options, &config);
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

    /// Packed, limited or both: planned micro-batches have the sizes of those that are trained.
    #[test]
    fn micro_batches_are_cut_as_in_training() {
        let packing = Some(Packing {
            separator: PackingSeparator::Eos,
            attention: PackingAttention::BlockDiagonal,
            strategy: PackingStrategy::Bfd,
        });
        for (packing, max_tokens_per_batch) in [(packing, None), (None, Some(100)), (packing, Some(100))] {
            let options = options(Lengths::Uniform, |options| {
                (options.batch_size, options.gradient_accumulation_steps) = (4, 2);
                (options.length, options.padding) = (TrainingLength::Steps(8), Padding::Longest);
                (options.packing, options.max_tokens_per_batch) = (packing, max_tokens_per_batch);
            });
            let config = config();
            let planned = steps(&options, &config, || sampler(&options, &config)).unwrap();
            let trained = trained(&options, &config);
            let sizes = |step: &EffectiveBatch| -> Vec<(usize, usize)> {
                let size = |micro: &MicroBatch| (micro.sequences.tokens(), micro.counted());
                step.micro.iter().map(size).collect()
            };
            assert_eq!(sizes(&planned.steps[0]), sizes(&trained[0]));
            let trained: Vec<_> = trained.iter().map(sizes).collect();
            for step in &planned.steps {
                assert!(trained.contains(&sizes(step)), "{packing:?}, {max_tokens_per_batch:?}");
            }
            let largest = |steps: &[Vec<(usize, usize)>]| steps.concat().into_iter().max();
            let planned: Vec<_> = planned.steps.iter().map(sizes).collect();
            assert_eq!(largest(&planned), largest(&trained));
        }
    }

    #[test]
    fn too_few_samples_for_a_step_are_read_and_not_made_up() {
        let options = options(Lengths::Fixed, |options| options.batch_size = 100);
        let config = config();
        assert!(steps(&options, &config, || sampler(&options, &config)).is_err());
    }
}
