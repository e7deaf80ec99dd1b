//! The steps of PyTorch's stack in a plan.

use std::cmp::Reverse;
use std::sync::Arc;

use data::{DataError, Sampler, TextLengths};
use options::{Data, DataOptions, Lengths, OutputLifetime, Padding, Synthetic};
use torch::MicroBatchShape;

use super::choice::{self, FEW_REPLAYED, MOST_REPLAYED, MOST_REPLAYED_STEPS};
use super::live;
use super::ours::{self, MOST_MICRO_BATCHES, trained_on};
use super::planned::Planned;
use super::sequence::{Micro, Sequence};
use super::trainer;

/// Equal steps in a plan of the torch stack. The first allocates the optimizer's state; all after the second are like
/// the second.
const MOST_STEPS: usize = 2;

/// Generations of a plan, beside those that find more memory in use.
const MOST_GENERATIONS: usize = 8;

/// The memory that a plan is to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The peak of live bytes, if outputs live so long.
    Live(OutputLifetime),
    /// A first look at what PyTorch's allocator holds: seldom more than all, and of uneven data found in fewer steps.
    Few,
    /// All that PyTorch's allocator holds.
    Replayed,
}

/// A step of the torch stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorchStep {
    /// Its micro-batches.
    pub micro_batches: Vec<MicroBatchShape>,
    /// True if the planned step before it is the one before it in training.
    pub follows: bool,
    /// True if the model generates after it.
    pub generates: bool,
    /// True if the allocator's cache is given back before the next one.
    pub empties_cache: bool,
}

/// What a training does between its steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct BetweenSteps {
    /// Steps after which the model generates.
    pub eval_steps: Option<usize>,
    /// Steps after which the allocator's cache is given back; 0 never.
    pub empty_cache_steps: usize,
}

/// Planned steps as a trace takes them, in parts between which others are left out.
pub fn parts(steps: &[TorchStep]) -> Vec<Vec<torch::Step<'_>>> {
    fn step(step: &TorchStep) -> torch::Step<'_> {
        torch::Step {
            micro_batches: &step.micro_batches,
            generates: step.generates,
            empties_cache: step.empties_cache,
        }
    }
    let parts = steps.chunk_by(|_, next| next.follows);
    parts.map(|part| part.iter().map(step).collect()).collect()
}

/// The optimizer steps that decide the memory of the torch stack. Lengths of a list are taken in turn, random ones in
/// our trainer's order, up to one pass over them, and a file's in the order of transformers' Trainer; so are all that
/// are packed or grouped by length. Buckets keep the order of the data.
///
/// Calls `sampler` only for made-up lengths, and `lengths` only for a file or the sample text.
/// If `unpads`, attention takes the padding out of a batch. `options` are of all `world_size` ranks together, and the steps
/// of the one with the largest micro-batch.
///
/// # Errors
/// If the data cannot be read or does not fill a step, or the model has no tokenizer.
pub fn torch_steps(
    options: &DataOptions,
    world_size: usize,
    depth: Depth,
    between: BetweenSteps,
    unpads: bool,
    sampler: impl FnOnce() -> Result<Arc<Sampler>, DataError>,
    lengths: impl FnOnce() -> Result<Arc<TextLengths>, DataError>,
) -> Result<Planned<TorchStep>, DataError> {
    let is_sampled = options.packing.is_some() || options.length_groups.is_some();
    let sequence = match &options.data {
        Data::Synthetic(data) => match &data.lengths {
            Lengths::Fixed => {
                return Ok(equal_steps(
                    options.max_seq_length,
                    options,
                    world_size,
                    depth,
                    between,
                    unpads,
                ));
            }
            _ if is_sampled => {
                let sampler = sampler()?;
                let train: Vec<u32> = sampler.train().collect();
                trainer::sequence(&train, |sample| sampler.lengths().tokens(sample), options, world_size)
            }
            Lengths::List(list) => match list[..] {
                [length] => return Ok(equal_steps(length, options, world_size, depth, between, unpads)),
                _ => return Ok(chosen(in_turn(list, options), options, world_size, depth, between, unpads).made_up()),
            },
            Lengths::Uniform | Lengths::LogNormal(_) => ours::sequence(&*sampler()?, options, pass(options, data)),
        },
        Data::Sample | Data::File(_) => {
            let lengths = lengths()?;
            trainer::sequence(
                &lengths.train(options)?,
                |sample| lengths.tokens(sample),
                options,
                world_size,
            )
        }
    };
    Ok(chosen(sequence, options, world_size, depth, between, unpads))
}

/// The steps of a sequence that decide its memory.
fn chosen(
    sequence: Sequence,
    options: &DataOptions,
    world_size: usize,
    depth: Depth,
    between: BetweenSteps,
    unpads: bool,
) -> Planned<TorchStep> {
    let (mut sequence, rank) = sequence.of_busiest_rank(world_size);
    if unpads {
        sequence.unpad();
    }
    let generating = between
        .eval_steps
        .map_or_else(Vec::new, |every| generating(&sequence, options, depth, every));
    let generates = |step: usize| generating.contains(&step);
    let has_texts = !matches!(options.data, Data::Synthetic(_));
    match depth {
        Depth::Live(outputs) => {
            let parts = live::choose(&sequence, outputs, &generating);
            let step = |sequence: &Sequence, step: usize| {
                let (micro_batches, indices) = (sequence.step(step), &parts[&step]);
                TorchStep {
                    micro_batches: indices.iter().map(|&index| shape(&micro_batches[index])).collect(),
                    follows: step > 0 && parts.contains_key(&(step - 1)) && indices.first() == Some(&0),
                    generates: generates(step),
                    // Live tensors do not change.
                    empties_cache: false,
                }
            };
            Planned::chosen(sequence, parts.keys().copied().collect(), has_texts, step).of_rank(rank)
        }
        Depth::Few | Depth::Replayed => {
            let most = if sequence.is_even() {
                MOST_MICRO_BATCHES
            } else {
                usize::MAX
            };
            let replayed = match depth {
                Depth::Few => FEW_REPLAYED,
                _ => MOST_REPLAYED,
            };
            let steps = choice::choose(&sequence, replayed, &generating);
            let all = training_steps(options).unwrap_or(sequence.len());
            let emptying = emptying(&steps, between.empty_cache_steps, all);
            let step = |sequence: &Sequence, step: usize| TorchStep {
                micro_batches: sequence.step(step).iter().take(most).map(shape).collect(),
                follows: true,
                generates: generates(step),
                empties_cache: emptying.contains(&step),
            };
            Planned::chosen(sequence, steps, has_texts, step).of_rank(rank)
        }
    }
}

/// The steps after which a plan has the model generate: for live bytes and a first look the one that leaves the largest
/// outputs, and for all that the allocator holds the first ones and those that leave larger outputs than all before
/// them. The last step stands for them if the training goes on until the model generates.
fn generating(sequence: &Sequence, options: &DataOptions, depth: Depth, every: usize) -> Vec<usize> {
    if every > sequence.len() {
        let goes_on = training_steps(options).is_some_and(|steps| steps >= every);
        return sequence.len().checked_sub(1).filter(|_| goes_on).into_iter().collect();
    }
    let left = |step: usize| sequence.step(step).last().map_or(0, Micro::size);
    let due = (every - 1..sequence.len()).step_by(every);
    if depth != Depth::Replayed {
        return due
            .max_by_key(|&step| (left(step), Reverse(step)))
            .into_iter()
            .collect();
    }
    let mut largest = 0;
    due.enumerate()
        .filter(|&(index, step)| {
            let is_record = left(step) > largest;
            largest = largest.max(left(step));
            index < MOST_GENERATIONS || is_record
        })
        .map(|(_, step)| step)
        .collect()
}

/// The planned steps before whose next one the allocator's cache is given back, after every `every` of `all` steps. All
/// intervals have the same peaks: if the planned steps lie in one, the last of them stands for one after it.
fn emptying(planned: &[usize], every: usize, all: usize) -> Vec<usize> {
    if every == 0 || all < every {
        return Vec::new();
    }
    let pairs = planned.windows(2).map(|pair| (pair[0], pair[1]));
    let ends = pairs.filter(|(step, next)| step / every < next / every);
    let mut emptying: Vec<usize> = ends.map(|(step, _)| step).collect();
    if emptying.is_empty() {
        emptying.extend(planned.iter().rev().take(2).next_back());
    }
    emptying
}

/// The steps of the whole training; `None` of epochs of a file, whose steps are all in the sequence.
fn training_steps(options: &DataOptions) -> Option<usize> {
    match &options.data {
        Data::Synthetic(data) => Some(options.length.steps_of(pass(options, data))),
        Data::Sample | Data::File(_) => options.length.steps(),
    }
}

/// Steps of one pass over made-up data.
fn pass(options: &DataOptions, data: &Synthetic) -> usize {
    trained_on(options, data.samples).div_ceil(options.effective_batch_size())
}

fn shape(micro: &Micro) -> MicroBatchShape {
    MicroBatchShape {
        batch: micro.batch as u32,
        len: micro.len as u32,
        padded: micro.is_padded(),
        apart: micro.apart as u32,
        unpadded: micro.unpadded as u32,
    }
}

/// Steps of samples with the lengths of a list in turn, one pass.
fn in_turn(list: &[usize], options: &DataOptions) -> Sequence {
    let most = list
        .len()
        .div_ceil(options.effective_batch_size())
        .max(MOST_REPLAYED_STEPS);
    let mut samples = (0..list.len() as u32).cycle();
    let mut sequence = Sequence::default();
    for _ in 0..options.length.steps().unwrap_or(most).min(most) {
        let samples: Vec<u32> = samples.by_ref().take(options.effective_batch_size()).collect();
        sequence.push(&samples, |sample| list[sample as usize], options);
    }
    sequence
}

/// Steps of samples of one length.
fn equal_steps(
    length: usize,
    options: &DataOptions,
    world_size: usize,
    depth: Depth,
    between: BetweenSteps,
    unpads: bool,
) -> Planned<TorchStep> {
    let length = length.min(options.max_seq_length);
    let len = match options.padding {
        Padding::MaxLength => options.max_seq_length,
        Padding::Longest => length,
    };
    let len = len.next_multiple_of(options.pad_to_multiple_of);
    let batch = options.batch_size as u32;
    let micro = match trainer::is_flat(options) {
        // A sample fills a row.
        true => MicroBatchShape {
            batch: 1,
            len: batch * len as u32,
            padded: false,
            apart: batch,
            unpadded: 0,
        },
        false => MicroBatchShape {
            batch,
            len: len as u32,
            padded: length < len,
            apart: 0,
            unpadded: if unpads && length < len {
                batch * length as u32
            } else {
                0
            },
        },
    };
    let most = match depth {
        Depth::Live(_) => MOST_STEPS,
        Depth::Few | Depth::Replayed => MOST_REPLAYED_STEPS,
    };
    let step = TorchStep {
        micro_batches: vec![micro; (options.gradient_accumulation_steps / world_size).min(MOST_MICRO_BATCHES)],
        follows: true,
        generates: false,
        empties_cache: false,
    };
    let mut steps = vec![step; options.length.steps().unwrap_or(most).min(most)];
    let planned: Vec<usize> = (0..steps.len()).collect();
    let all = training_steps(options).unwrap_or(usize::MAX);
    for step in emptying(&planned, between.empty_cache_steps, all) {
        steps[step].empties_cache = true;
    }
    // After the second one, as after any later one; the third finds the cache that it leaves.
    let goes_on = |every: usize| training_steps(options).is_none_or(|all| all >= every);
    if between.eval_steps.is_some_and(goes_on)
        && let Some(step) = steps.iter_mut().take(MOST_STEPS).last()
    {
        step.generates = true;
    }
    Planned::alike(steps)
}

#[cfg(test)]
mod tests {
    use options::TrainingLength;

    use super::super::testing::{config, options, sampler, trained};
    use super::*;

    /// The micro-batches of each step, as (samples, tokens with padding, whether there is padding).
    fn planned(options: &DataOptions, depth: Depth) -> Vec<Vec<(u32, u32, bool)>> {
        let shape = |micro: &MicroBatchShape| (micro.batch, micro.len, micro.padded);
        let config = config();
        let planned = torch_steps(
            options,
            1,
            depth,
            BetweenSteps::default(),
            false,
            || sampler(options, &config),
            unread,
        )
        .unwrap();
        let steps = planned.steps.iter();
        steps
            .map(|step| step.micro_batches.iter().map(shape).collect())
            .collect()
    }

    fn torch(options: &DataOptions) -> Vec<Vec<(u32, u32, bool)>> {
        planned(options, Depth::Replayed)
    }

    fn without_replay(options: &DataOptions) -> Vec<Vec<(u32, u32, bool)>> {
        planned(options, Depth::Live(OutputLifetime::None))
    }

    fn unread() -> Result<Arc<TextLengths>, DataError> {
        unreachable!("synthetic data has no text")
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

    /// The planned steps after which the model generates, by their micro-batch's tokens.
    fn generating_after(lengths: Lengths, steps: usize, every: usize, depth: Depth) -> Vec<u32> {
        let options = options(lengths, |options| {
            (options.length, options.batch_size) = (TrainingLength::Steps(steps), 1);
            options.padding = Padding::Longest;
        });
        let config = config();
        let planned = torch_steps(
            &options,
            1,
            depth,
            BetweenSteps {
                eval_steps: Some(every),
                ..BetweenSteps::default()
            },
            false,
            || sampler(&options, &config),
            unread,
        )
        .unwrap();
        let generating = planned.steps.iter().filter(|step| step.generates);
        generating.map(|step| step.micro_batches[0].len).collect()
    }

    #[test]
    fn a_plan_has_steps_after_which_the_model_generates() {
        let lengths = || Lengths::List((2..62).collect());
        let replayed = |steps, every| generating_after(lengths(), steps, every, Depth::Replayed);
        assert_eq!(replayed(60, 20), [21, 41, 61]);
        assert_eq!(
            replayed(600, 250),
            [61],
            "one pass is planned, and the training goes on"
        );
        assert_eq!(replayed(60, 61), [0; 0], "it ends before");
        assert_eq!(
            generating_after(lengths(), 60, 20, Depth::Live(OutputLifetime::NextForward)),
            [61],
            "beside the largest outputs"
        );
        let few = generating_after(lengths(), 60, 59, Depth::Few);
        assert_eq!(few, [60], "the step is planned for it");
        for depth in [Depth::Replayed, Depth::Live(OutputLifetime::Step)] {
            assert_eq!(generating_after(Lengths::Fixed, 1000, 250, depth), [64]);
        }
    }

    #[test]
    fn a_cache_is_given_back_at_the_steps_of_the_training() {
        assert_eq!(emptying(&[0, 1, 2, 3, 4], 2, 5), [1, 3]);
        assert_eq!(
            emptying(&[0, 1, 5, 17, 18, 45], 10, 46),
            [5, 18],
            "once between two planned steps"
        );
        assert_eq!(emptying(&[0, 1, 2], 10, 100), [1], "the third stands for the eleventh");
        assert_eq!(emptying(&[0], 1, 1), [0]);
        assert_eq!(emptying(&[0, 1, 2], 10, 9), [0; 0], "the training ends before");
        assert_eq!(emptying(&[0, 1, 2], 0, 9), [0; 0]);
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
        // The first step makes the optimizer's state, and the third is like the second.
        assert_eq!(without_replay(&listed(Padding::Longest)), longest[..2]);
        let mut multiple = listed(Padding::Longest);
        multiple.pad_to_multiple_of = 16;
        assert_eq!(torch(&multiple), [[(2, 32, true)], [(2, 64, true)], [(2, 64, true)]]);
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
        let ours = trained(&options, &config).into_iter().take(8);
        let ours = ours
            .flat_map(|step| step.micro)
            .map(|micro| (4, micro.sequences.longest() as u32, true));
        assert_eq!(steps.concat(), ours.collect::<Vec<_>>());
    }
}
