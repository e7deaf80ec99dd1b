//! The micro-batches of a training on uneven data that may make the peak of live bytes.

use std::collections::{BTreeMap, BTreeSet};

use options::OutputLifetime;

use super::sequence::{Micro, Sequence};

/// All that the live bytes of a micro-batch depend on.
struct Circumstances {
    step: usize,
    /// Index of the micro-batch in its step.
    index: usize,
    /// A batch with padding has a mask, and other kernels of attention.
    is_padded: bool,
    /// Live bytes grow with each of these: the optimizer's state and gradients are there; the optimizer finds the
    /// outputs; the sizes of the micro-batch, and the samples and tokens that attention keeps apart in it; those of the one before
    /// it, if its outputs live that long.
    amounts: [usize; 9],
}

impl Circumstances {
    /// True if `other` needs no more.
    fn cover(&self, other: &Self) -> bool {
        let mut amounts = self.amounts.iter().zip(&other.amounts);
        self.is_padded == other.is_padded && amounts.all(|(amount, other)| amount >= other)
    }
}

/// The planned steps with the indices of their planned micro-batches, both ascending. The peak of live bytes is that of
/// the whole training: no micro-batch that is left out needs more than one that is planned. The first step makes the
/// optimizer's state. After the steps `generating` the model generates beside their outputs.
pub(super) fn choose(
    sequence: &Sequence,
    outputs: OutputLifetime,
    generating: &[usize],
) -> BTreeMap<usize, Vec<usize>> {
    let last = |step: usize| sequence.step(step).len().saturating_sub(1);
    let mut chosen: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    if sequence.len() > 0 {
        chosen.entry(0).or_default().insert(last(0));
    }
    for &Circumstances { step, index, .. } in &front(sequence, outputs) {
        let micro_batches = chosen.entry(step).or_default();
        // The one before leaves gradients, and outputs if they live that long.
        micro_batches.extend(index.saturating_sub(1)..=index);
        if index == 0 && step > 0 && outputs == OutputLifetime::NextForward {
            chosen.entry(step - 1).or_default().insert(last(step - 1));
        }
    }
    for &step in generating {
        chosen.entry(step).or_default().insert(last(step));
    }
    let all_that_follow = |(step, micro_batches): (usize, BTreeSet<usize>)| {
        let first = micro_batches.first().copied().unwrap_or(0);
        match outputs {
            OutputLifetime::None => (step, micro_batches.into_iter().collect()),
            // No micro-batch finds the outputs of another than in training.
            OutputLifetime::Step | OutputLifetime::NextForward => (step, (first..=last(step)).collect()),
        }
    };
    chosen.into_iter().map(all_that_follow).collect()
}

/// The circumstances that no others cover; the first of equal ones.
fn front(sequence: &Sequence, outputs: OutputLifetime) -> Vec<Circumstances> {
    let size = |micro: &Micro| [micro.size(), micro.len];
    let mut front: Vec<Circumstances> = Vec::new();
    let mut before: Option<&Micro> = None;
    for step in 0..sequence.len() {
        let micro_batches = sequence.step(step);
        for (index, micro) in micro_batches.iter().enumerate() {
            let is_last = outputs != OutputLifetime::None && index + 1 == micro_batches.len();
            let found = before.filter(|_| match outputs {
                OutputLifetime::None => false,
                OutputLifetime::Step => index > 0,
                OutputLifetime::NextForward => true,
            });
            let ([tokens, len], [found_tokens, found_len]) = (size(micro), found.map_or([0, 0], size));
            let new = Circumstances {
                step,
                index,
                is_padded: micro.is_padded(),
                amounts: [
                    usize::from(step > 0),
                    usize::from(index > 0),
                    usize::from(is_last),
                    tokens,
                    len,
                    micro.apart,
                    micro.unpadded,
                    found_tokens,
                    found_len,
                ],
            };
            before = Some(micro);
            if !front.iter().any(|known| known.cover(&new)) {
                front.retain(|known| !new.cover(known));
                front.push(new);
            }
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cell::{Cell, Checkpointing, Data, Lengths, Optimizer, Stack, Torch};
    use options::{Generation, Padding, ZeroGrad};
    use trace::Account;

    use super::super::testing::training;
    use super::super::{BetweenSteps, Depth, parts, torch_steps};
    use super::*;
    use crate::torch_configuration::torch_configuration;

    fn chosen(steps: &[&[&[usize]]], outputs: OutputLifetime) -> Vec<(usize, Vec<usize>)> {
        choose(&training(steps), outputs, &[]).into_iter().collect()
    }

    #[test]
    fn the_first_step_and_the_largest_are_planned() {
        let steps: &[&[&[usize]]] = &[&[&[4]], &[&[9]], &[&[9]], &[&[3]]];
        let one = |step| (step, vec![0]);
        assert_eq!(
            chosen(steps, OutputLifetime::None),
            [one(0), one(1)],
            "the first of equal ones"
        );
        // The second 9 finds the outputs of the first.
        assert_eq!(chosen(steps, OutputLifetime::NextForward), [one(0), one(1), one(2)]);
        assert_eq!(chosen(steps, OutputLifetime::Step), [one(0), one(1)]);
        let first: &[&[&[usize]]] = &[&[&[9]], &[&[4]], &[&[5]]];
        assert_eq!(
            chosen(first, OutputLifetime::None),
            [one(0), one(2)],
            "it has no state yet"
        );
    }

    #[test]
    fn a_smaller_one_with_padding_or_a_longer_one_is_planned_too() {
        let steps: &[&[&[usize]]] = &[&[&[1, 1]], &[&[9, 9]], &[&[8, 7]], &[&[12]], &[&[6, 5]]];
        let steps = chosen(steps, OutputLifetime::None);
        assert_eq!(steps.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn of_a_long_step_a_few_micro_batches_are_planned() {
        let lengths: Vec<[usize; 1]> = (0..100).map(|index| [if index == 50 { 90 } else { 10 }]).collect();
        let long: Vec<&[usize]> = lengths.iter().map(|lengths| &lengths[..]).collect();
        let steps: &[&[&[usize]]] = &[&long, &long];
        let micro_batches = |outputs| chosen(steps, outputs).pop().unwrap().1;
        assert_eq!(micro_batches(OutputLifetime::None), [49, 50]);
        // With its outputs, what follows is planned until the optimizer.
        assert_eq!(micro_batches(OutputLifetime::Step), (49..100).collect::<Vec<_>>());
    }
    /// Lengths of a training whose largest micro-batches, pairs of them, and last ones of a step differ.
    const LENGTHS: [usize; 23] = [
        40, 38, 7, 21, 55, 3, 64, 9, 30, 29, 44, 12, 61, 58, 5, 17, 50, 49, 62, 2, 33, 26, 63,
    ];

    /// The peak of live bytes with these steps.
    fn peak(cell: &Cell, depth: Depth) -> (u64, usize) {
        let model = arch::open(&cell.model_options(), cell.stack, &Path::new("").into()).unwrap();
        let configuration = torch_configuration(cell, model, None).unwrap();
        let unread = || unreachable!("a list is given");
        let options = cell.data_options();
        let between = BetweenSteps {
            eval_steps: cell.torch.generation.map(|generation| generation.eval_steps),
            ..BetweenSteps::default()
        };
        let no_text = || unreachable!("no text is read");
        let planned = torch_steps(&options, 1, depth, between, false, unread, no_text).unwrap();
        let micro_batches = planned.steps.iter().map(|step| step.micro_batches.len()).sum();
        let trace = torch::trace_parts(&configuration, &parts(&planned.steps));
        (Account::of(&trace, 512, 1).peak.bytes, micro_batches)
    }

    #[test]
    fn the_peak_is_that_of_the_whole_training() {
        for outputs in [OutputLifetime::None, OutputLifetime::Step, OutputLifetime::NextForward] {
            let mut planned = 0;
            let mut all = 0;
            for zero_grad in [ZeroGrad::AfterStep, ZeroGrad::BeforeForward, ZeroGrad::Never] {
                for (batch_size, gradient_accumulation_steps) in [(1, 1), (2, 1), (1, 4), (3, 2)] {
                    for (rank, gradient_checkpointing, optim) in [
                        (0, Checkpointing::None, Optimizer::Adamw),
                        (8, Checkpointing::Full, Optimizer::Adamw),
                        (8, Checkpointing::None, Optimizer::Sgd),
                    ] {
                        for (turn, generates) in [(0, false), (6, true), (18, true)] {
                            let mut lengths = LENGTHS.to_vec();
                            lengths.rotate_left(turn);
                            let mut cell = Cell {
                                stack: Stack::Torch,
                                model: "tiny".into(),
                                padding: Padding::Longest,
                                max_seq_length: 64,
                                max_steps: Some(100),
                                batch_size,
                                gradient_accumulation_steps,
                                rank,
                                gradient_checkpointing: gradient_checkpointing.clone(),
                                optim,
                                ..Cell::default()
                            };
                            cell.torch.keep_outputs = outputs;
                            cell.torch.zero_grad = zero_grad;
                            cell.torch.generation = generates.then_some(Generation {
                                eval_steps: 3,
                                batch_size: 200,
                                prompt_tokens: 60,
                                max_new_tokens: 4,
                            });
                            if let Data::Synthetic(synthetic) = &mut cell.data {
                                synthetic.lengths = Lengths::List(lengths);
                            }
                            let (whole, most) = peak(&cell, Depth::Replayed);
                            if generates {
                                let trains = Cell {
                                    torch: Torch {
                                        generation: None,
                                        ..cell.torch.clone()
                                    },
                                    ..cell.clone()
                                };
                                assert!(peak(&trains, Depth::Replayed).0 < whole, "generation needs most");
                            }
                            let (found, few) = peak(&cell, Depth::Live(outputs));
                            assert_eq!(found, whole, "{cell:?}");
                            (planned, all) = (planned + few, all + most);
                        }
                    }
                }
            }
            assert!(planned < all * 2 / 3, "{outputs:?}: {planned} of {all}");
        }
    }
}
