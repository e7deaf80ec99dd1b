//! The steps of a training by transformers' Trainer, or by the loop of PEFT's method comparison, from the lengths of
//! its samples.

use options::{DataOptions, LengthGroups, Packing, PackingStrategy};
use torch::PackedRow;

use super::sequence::Sequence;

/// Every step of a training on the samples `train`, of which `tokens` gives the lengths. `options` are of all ranks
/// together.
pub(super) fn sequence(
    train: &[u32],
    tokens: impl Fn(u32) -> usize,
    options: &DataOptions,
    world_size: usize,
) -> Sequence {
    let packed = options.packing.map(|packing| rows(train, &tokens, options, packing));
    let count = packed.as_ref().map_or(train.len(), Vec::len);
    let epoch_steps = || torch::epoch_steps(count, options.batch_size, options.gradient_accumulation_steps);
    let steps = options.length.steps_of(epoch_steps().len());
    let length = |index: u32| match &packed {
        Some(rows) => rows[index as usize].tokens,
        None => tokens(train[index as usize]).min(options.max_seq_length),
    };
    let mut global_orders = torch::GlobalOrders::new(options.seed);
    let mut sequence = Sequence::default();
    for epoch in 0.. {
        if sequence.len() == steps {
            break;
        }
        let order = match options.length_groups {
            Some(groups) => {
                let mut order = match groups {
                    LengthGroups::MegaBatches => global_orders.next_epoch(count),
                    // `BucketIterator` of `method_comparison/MetaMathQA/utils.py` shuffles nothing.
                    LengthGroups::Buckets(_) => (0..count as u32).collect(),
                };
                // The Trainer groups by the samples of one rank's step.
                let together = options.effective_batch_size() / world_size;
                data::group_by_length(&mut order, length, together, groups);
                order
            }
            None => torch::epoch_order(options.seed, epoch, count),
        };
        for step in epoch_steps().take(steps - sequence.len()) {
            match &packed {
                Some(rows) => {
                    for micro in step {
                        let rows = order[micro].iter().map(|&row| &rows[row as usize]);
                        sequence.push_rows(rows, is_flat(options));
                    }
                    sequence.end_step();
                }
                None => {
                    let indices = step.flat_map(|range| &order[range]);
                    let samples: Vec<u32> = indices.map(|&index| train[index as usize]).collect();
                    sequence.push(&samples, &tokens, options);
                }
            }
        }
    }
    sequence
}

/// True if the rows of a micro-batch become one: TRL's collator is `padding_free` if rows are packed by best fit.
pub(super) fn is_flat(options: &DataOptions) -> bool {
    let strategy = options.packing.map(|packing| packing.strategy);
    strategy == Some(PackingStrategy::Bfd)
}

/// The rows that TRL packs all samples into before the training.
fn rows(train: &[u32], tokens: impl Fn(u32) -> usize, options: &DataOptions, packing: Packing) -> Vec<PackedRow> {
    let lengths: Vec<usize> = train.iter().map(|&sample| tokens(sample)).collect();
    let mut rows = match packing.strategy {
        PackingStrategy::Bfd => torch::best_fit_decreasing(&lengths, options.max_seq_length),
        PackingStrategy::Wrapped => torch::wrapped(&lengths, options.max_seq_length),
    };
    for sample in rows.iter_mut().flat_map(|row| &mut row.samples) {
        *sample = train[*sample as usize];
    }
    rows
}

#[cfg(test)]
mod tests {
    use options::{Lengths, PackingAttention, PackingSeparator, Padding, TrainingLength};
    use serde::Deserialize;

    use super::super::testing::options;
    use super::*;

    /// A training of transformers' or TRL's trainer, with its micro-batches.
    #[derive(Deserialize)]
    struct Run<M> {
        lengths: Vec<usize>,
        batch_size: usize,
        accumulation: usize,
        seed: u64,
        epochs: f64,
        strategy: Option<PackingStrategy>,
        row: Option<usize>,
        #[serde(default)]
        grouped: bool,
        steps: usize,
        micro_batches: Vec<M>,
    }

    impl<M> Run<M> {
        fn sequence(&self) -> Sequence {
            let train: Vec<u32> = (0..self.lengths.len() as u32).collect();
            let options = options(Lengths::Fixed, |options| {
                (options.batch_size, options.gradient_accumulation_steps) = (self.batch_size, self.accumulation);
                (options.length, options.seed) = (TrainingLength::Epochs(self.epochs), self.seed);
                (options.max_seq_length, options.padding) = (self.row.unwrap_or(usize::MAX), Padding::Longest);
                options.length_groups = self.grouped.then_some(LengthGroups::MegaBatches);
                options.packing = self.strategy.map(|strategy| Packing {
                    separator: PackingSeparator::None,
                    attention: PackingAttention::BlockDiagonal,
                    strategy,
                });
            });
            let sequence = sequence(&train, |sample| self.lengths[sample as usize], &options, 1);
            assert_eq!(sequence.len(), self.steps);
            sequence
        }
    }

    /// `make_sampler_order.py` made the numbers.
    #[test]
    fn samples_of_like_lengths_are_those_that_transformers_groups() {
        #[derive(Deserialize)]
        struct Golden {
            grouped: Vec<Run<Vec<u32>>>,
        }
        let json = include_str!("../../../../tests/fixtures/torch_abstract/sampler_order.json");
        let golden: Golden = serde_json::from_str(json).unwrap();
        assert!(!golden.grouped.is_empty());
        for mut run in golden.grouped {
            run.grouped = true;
            let sequence = run.sequence();
            let micro_batches = (0..sequence.len()).flat_map(|step| sequence.step(step));
            let samples: Vec<_> = micro_batches.map(|micro| sequence.samples(micro).to_vec()).collect();
            assert_eq!(samples, run.micro_batches);
        }
    }

    #[test]
    fn buckets_keep_the_order_of_the_data_and_come_from_long_to_short() {
        let lengths = [3, 9, 4, 8, 2, 7, 6, 5, 1];
        let train: Vec<u32> = (0..lengths.len() as u32).collect();
        let options = options(Lengths::Fixed, |options| {
            (options.batch_size, options.length) = (2, TrainingLength::Epochs(1.0));
            (options.max_seq_length, options.padding) = (100, Padding::Longest);
            options.length_groups = Some(LengthGroups::Buckets(2));
        });
        let sequence = sequence(&train, |sample| lengths[sample as usize], &options, 1);
        let of_step = |step: usize| {
            sequence
                .step(step)
                .iter()
                .flat_map(|micro| sequence.samples(micro))
                .copied()
        };
        let samples: Vec<Vec<u32>> = (0..sequence.len()).map(|step| of_step(step).collect()).collect();
        assert_eq!(samples, [vec![1, 3], vec![2, 0], vec![5, 6], vec![7, 4], vec![8]]);
    }

    /// `make_packing.py` made the numbers: rows, their length, and the samples that are kept apart.
    #[test]
    fn packed_micro_batches_are_those_that_trl_trains_with() {
        #[derive(Deserialize)]
        struct Golden {
            runs: Vec<Run<[usize; 3]>>,
        }
        let json = include_str!("../../../../tests/fixtures/torch_abstract/packing.json");
        let golden: Golden = serde_json::from_str(json).unwrap();
        assert!(!golden.runs.is_empty());
        for run in golden.runs {
            let sequence = run.sequence();
            let micro_batches = (0..sequence.len()).flat_map(|step| sequence.step(step));
            let shapes: Vec<_> = micro_batches
                .map(|micro| [micro.batch, micro.len, micro.apart])
                .collect();
            assert_eq!(
                shapes,
                run.micro_batches,
                "{:?}, {} tokens",
                run.strategy,
                run.lengths.len()
            );
        }
    }
}
