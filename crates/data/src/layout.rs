//! The samples of an effective batch in micro-batches: padded to one length, or packed into rows.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kernels::Sequences;
use options::{DataOptions, Packing, PackingAttention, PackingSeparator, Padding};

use super::micro_batch::MicroBatch;

/// Cuts effective batches into micro-batches.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Rows in a micro-batch.
    batch_size: usize,
    /// Tokens of a micro-batch, padding included, if it has more than one row.
    max_tokens: usize,
    /// Tokens that a packed row has at most.
    row: usize,
    /// Tokens that shorter samples are padded to; `None` pads to the longest.
    fixed: Option<usize>,
    multiple: usize,
    packing: Option<Packing>,
}

/// A micro-batch without ids, and the places of its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaidOut {
    /// The micro-batch, without ids and labels, with all tokens predicted.
    pub micro: MicroBatch,
    /// Its samples in the order of their tokens: the index in the effective batch, and the first token.
    pub samples: Vec<(usize, usize)>,
}

impl Layout {
    /// The layout that these options ask for.
    pub fn new(options: &DataOptions) -> Self {
        Self {
            batch_size: options.batch_size,
            max_tokens: options.max_tokens_per_batch.unwrap_or(usize::MAX),
            row: options.max_seq_length,
            fixed: (options.padding == Padding::MaxLength).then_some(options.max_seq_length),
            multiple: options.pad_to_multiple_of,
            packing: options.packing,
        }
    }

    /// This layout with a row for each sample. Samples that were packed are padded to the longest, since a packed cell
    /// has no `padding`.
    pub(super) fn unpacked(self) -> Self {
        Self {
            packing: None,
            fixed: self.fixed.filter(|_| self.packing.is_none()),
            ..self
        }
    }

    /// The micro-batches of an effective batch whose samples have these lengths. All its samples are in one of them.
    pub fn micro_batches(&self, lengths: &[usize]) -> Vec<LaidOut> {
        let rows = match self.packing {
            Some(packing) => pack(lengths, self.row, packing),
            None => (0..lengths.len()).map(|sample| vec![sample]).collect(),
        };
        let (mut rows, mut laid_out) = (&rows[..], Vec::new());
        while !rows.is_empty() {
            let (these, rest) = rows.split_at(self.fitting(rows, lengths));
            laid_out.push(match self.packing {
                Some(packing) => packed(these, lengths, packing),
                None => self.padded(these, lengths),
            });
            rows = rest;
        }
        laid_out
    }

    /// The rows from the first on that go into one micro-batch: at least one.
    fn fitting(&self, rows: &[Vec<usize>], lengths: &[usize]) -> usize {
        let (mut longest, mut sum) = (0, 0);
        let fits = |&(index, row): &(usize, &Vec<usize>)| {
            let tokens = row_tokens(row, lengths, self.packing);
            (longest, sum) = (tokens.max(longest), sum + tokens);
            let size = match self.packing {
                Some(_) => sum,
                None => (index + 1) * self.padded_len(longest),
            };
            index == 0 || size <= self.max_tokens
        };
        let rows = rows.iter().take(self.batch_size).enumerate();
        rows.take_while(fits).count()
    }

    /// The length that samples are padded to of which the longest has `longest` tokens.
    fn padded_len(&self, longest: usize) -> usize {
        self.fixed.unwrap_or(longest).next_multiple_of(self.multiple)
    }

    /// Rows of one sample each, padded.
    fn padded(&self, rows: &[Vec<usize>], lengths: &[usize]) -> LaidOut {
        let samples = || rows.iter().flatten().copied();
        let longest = samples().map(|sample| lengths[sample]).max().unwrap_or(0);
        let len = self.padded_len(longest);
        LaidOut {
            micro: MicroBatch {
                ids: Vec::new(),
                sequences: Sequences::even(rows.len(), len),
                lengths: samples().map(|sample| lengths[sample] as u32).collect(),
                separators: Vec::new(),
                targets: None,
                labels: Vec::new(),
                sample_ids: samples().map(|sample| sample as u32).collect(),
            },
            samples: samples().zip((0..).step_by(len.max(1))).collect(),
        }
    }
}

/// Rows one after the other without padding.
fn packed(rows: &[Vec<usize>], lengths: &[usize], packing: Packing) -> LaidOut {
    let (mut samples, mut separators) = (Vec::new(), Vec::new());
    // The first token of each sequence, and the sample that it begins with.
    let (mut starts, mut sample_ids) = (Vec::new(), Vec::new());
    let mut end = 0;
    for row in rows {
        for (index, &sample) in row.iter().enumerate() {
            if index > 0 && packing.separator == PackingSeparator::Eos {
                separators.push(end as u32);
                end += 1;
            }
            if index == 0 || packing.attention == PackingAttention::BlockDiagonal {
                starts.push(end);
                sample_ids.push(sample as u32);
            }
            samples.push((sample, end));
            end += lengths[sample];
        }
    }
    let ends = starts.iter().skip(1).copied().chain([end]);
    // A separator belongs to the sample before it.
    let lengths: Vec<usize> = starts.iter().zip(ends).map(|(start, end)| end - start).collect();
    LaidOut {
        micro: MicroBatch {
            ids: Vec::new(),
            sequences: Sequences::of(lengths.iter().copied()),
            lengths: lengths.iter().map(|&length| length as u32).collect(),
            separators,
            targets: None,
            labels: Vec::new(),
            sample_ids,
        },
        samples,
    }
}

/// Tokens of a row, with its separators.
fn row_tokens(row: &[usize], lengths: &[usize], packing: Option<Packing>) -> usize {
    let separators = (row.len() - 1) * packing.map_or(0, separator_tokens);
    row.iter().map(|&sample| lengths[sample]).sum::<usize>() + separators
}

fn separator_tokens(packing: Packing) -> usize {
    match packing.separator {
        PackingSeparator::None => 0,
        PackingSeparator::Eos => 1,
    }
}

/// Rows of at most `most` tokens, by best fit: from the longest sample to the shortest, each goes into the fullest row
/// that has room for it, and begins a new one if none has. Of equal samples and rows the first counts.
fn pack(lengths: &[usize], most: usize, packing: Packing) -> Vec<Vec<usize>> {
    let mut longest_first: Vec<usize> = (0..lengths.len()).collect();
    longest_first.sort_by_key(|&sample| Reverse(lengths[sample]));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    // The room of each row, and its index.
    let mut room: BTreeSet<(usize, usize)> = BTreeSet::new();
    for sample in longest_first {
        let needed = lengths[sample] + separator_tokens(packing);
        let fullest = room.range((needed, 0)..).next().copied();
        match fullest {
            Some(place @ (left, row)) => {
                room.remove(&place);
                room.insert((left - needed, row));
                rows[row].push(sample);
            }
            None => {
                room.insert((most.saturating_sub(lengths[sample]), rows.len()));
                rows.push(vec![sample]);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use options::PackingStrategy;

    use super::*;
    use crate::testing::options;

    fn layout(change: impl FnOnce(&mut DataOptions)) -> Layout {
        let mut options = options(2, 1);
        change(&mut options);
        Layout::new(&options)
    }

    fn packing(separator: PackingSeparator, attention: PackingAttention) -> Option<Packing> {
        Some(Packing {
            separator,
            attention,
            strategy: PackingStrategy::Bfd,
        })
    }

    /// The samples of each micro-batch, and its tokens.
    fn cut(layout: &Layout, lengths: &[usize]) -> Vec<(Vec<usize>, usize)> {
        let micro_batches = layout.micro_batches(lengths).into_iter();
        micro_batches
            .map(|laid| {
                let samples = laid.samples.iter().map(|&(sample, _)| sample).collect();
                (samples, laid.micro.sequences.tokens())
            })
            .collect()
    }

    #[test]
    fn samples_are_padded_to_the_longest_or_to_a_multiple() {
        let lengths = [3, 5, 2];
        assert_eq!(cut(&layout(|_| ()), &lengths), [(vec![0, 1], 10), (vec![2], 2)]);
        let multiple = layout(|options| options.pad_to_multiple_of = 4);
        assert_eq!(cut(&multiple, &lengths), [(vec![0, 1], 16), (vec![2], 4)]);
        let fixed = layout(|options| {
            (options.padding, options.max_seq_length, options.pad_to_multiple_of) = (Padding::MaxLength, 9, 4);
        });
        assert_eq!(cut(&fixed, &lengths), [(vec![0, 1], 24), (vec![2], 12)]);
    }

    #[test]
    fn samples_that_were_packed_are_padded_to_the_longest() {
        let fixed = |packing| {
            let change = |options: &mut DataOptions| {
                (options.padding, options.max_seq_length, options.packing) = (Padding::MaxLength, 9, packing);
            };
            layout(change).unpacked()
        };
        let packing = packing(PackingSeparator::None, PackingAttention::BlockDiagonal);
        assert_eq!(cut(&fixed(packing), &[3, 5, 2]), [(vec![0, 1], 10), (vec![2], 2)]);
        assert_eq!(cut(&fixed(None), &[3, 5, 2]), [(vec![0, 1], 18), (vec![2], 9)]);
    }

    #[test]
    fn a_micro_batch_has_at_most_so_many_padded_tokens() {
        let limited = layout(|options| (options.batch_size, options.max_tokens_per_batch) = (4, Some(12)));
        let lengths = [3, 4, 5, 12, 2, 2, 2, 2, 2];
        assert_eq!(
            cut(&limited, &lengths),
            [
                (vec![0, 1], 8),
                (vec![2], 5),
                (vec![3], 12),
                (vec![4, 5, 6, 7], 8),
                (vec![8], 2)
            ]
        );
        for seed in 0..200usize {
            let lengths: Vec<usize> = (0..30).map(|at| 2 + (at * 7919 + seed * 104_729) % 11).collect();
            let micro = limited.micro_batches(&lengths);
            assert!(micro.iter().all(|laid| laid.micro.sequences.tokens() <= 12));
            let samples = micro
                .iter()
                .flat_map(|laid| laid.samples.iter().map(|&(sample, _)| sample));
            assert!(samples.eq(0..30), "in their order, each once");
        }
    }

    #[test]
    fn packed_rows_are_filled_by_best_fit() {
        let packed = layout(|options| {
            (options.batch_size, options.max_seq_length) = (2, 10);
            options.packing = packing(PackingSeparator::None, PackingAttention::BlockDiagonal);
        });
        // 7 + 3, 6 + 4, 5 + 2 + 2.
        let lengths = [2, 7, 4, 5, 2, 3, 6];
        let micro = packed.micro_batches(&lengths);
        let samples: Vec<Vec<_>> = micro.iter().map(|laid| laid.samples.clone()).collect();
        assert_eq!(
            samples,
            [vec![(1, 0), (5, 7), (6, 10), (2, 16)], vec![(3, 0), (0, 5), (4, 7)]]
        );
        assert_eq!(micro[0].micro.sequences, Sequences::of([7, 3, 6, 4]));
        assert_eq!(micro[0].micro.sample_ids, [1, 5, 6, 2]);
        assert_eq!(micro[0].micro.counted(), 16);
        let limited = Layout {
            max_tokens: 12,
            ..packed
        };
        assert_eq!(cut(&limited, &lengths).len(), 3, "a row each");
    }

    #[test]
    fn a_separator_ends_its_sample_and_is_no_target() {
        let lengths = [3, 2, 4];
        let laid = |attention| {
            let layout = layout(|options| {
                (options.batch_size, options.max_seq_length) = (2, 8);
                options.packing = packing(PackingSeparator::Eos, attention);
            });
            let mut laid = layout.micro_batches(&lengths);
            assert_eq!(laid.len(), 1);
            laid.remove(0)
        };
        // 4 + eos + 3, and 2: with its separator, it has no room.
        let blocks = laid(PackingAttention::BlockDiagonal);
        assert_eq!(blocks.samples, [(2, 0), (0, 5), (1, 8)]);
        assert_eq!(blocks.micro.sequences, Sequences::of([5, 3, 2]));
        assert_eq!(blocks.micro.separators, [4]);
        assert_eq!(blocks.micro.predicting().collect::<Vec<_>>(), [0, 1, 2, 5, 6, 8]);
        assert_eq!(blocks.micro.counted(), 6, "as many as without packing");
        // The separator predicts the next sample's first token.
        let full = laid(PackingAttention::Full);
        assert_eq!(full.micro.sequences, Sequences::of([8, 2]));
        assert_eq!(full.micro.predicting().collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 8]);
        assert_eq!((full.micro.counted(), full.micro.sample_ids.len()), (7, 2));
    }

    /// Whatever is packed: each sample once, no row too long, and as many targets as without packing.
    #[test]
    fn packing_loses_nothing() {
        for seed in 0..200usize {
            let lengths: Vec<usize> = (0..25).map(|at| 2 + (at * 7919 + seed * 104_729) % 15).collect();
            for separator in [PackingSeparator::None, PackingSeparator::Eos] {
                let layout = layout(|options| {
                    (options.batch_size, options.max_seq_length) = (3, 16);
                    options.packing = packing(separator, PackingAttention::BlockDiagonal);
                });
                let micro = layout.micro_batches(&lengths);
                let mut samples: Vec<usize> = micro
                    .iter()
                    .flat_map(|laid| laid.samples.iter().map(|&(sample, _)| sample))
                    .collect();
                samples.sort_unstable();
                assert!(samples.into_iter().eq(0..25));
                assert!(micro.iter().all(|laid| laid.micro.sequences.tokens() <= 3 * 16));
                let counted: usize = micro.iter().map(|laid| laid.micro.counted()).sum();
                assert_eq!(counted, lengths.iter().sum::<usize>() - lengths.len());
                assert!(pack(&lengths, 16, layout.packing.unwrap()).iter().all(|row| row_tokens(
                    row,
                    &lengths,
                    layout.packing
                ) <= 16));
            }
        }
    }
}
