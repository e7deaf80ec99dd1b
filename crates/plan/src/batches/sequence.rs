//! All micro-batches of a training on uneven data, in their order.

use std::ops::Range;

use data::{LaidOut, Layout};
use options::DataOptions;
use torch::PackedRow;

/// The micro-batches of every step.
#[derive(Debug, Clone, Default)]
pub(super) struct Sequence {
    /// Indices of samples, micro-batch after micro-batch.
    samples: Vec<u32>,
    micro: Vec<Micro>,
    /// The end of each step in `micro`, which is the start of the next.
    ends: Vec<usize>,
}

/// The size of a micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Micro {
    /// Index of its first sample in the sequence.
    first: usize,
    samples: usize,
    /// Rows; 1 if samples are packed.
    pub(super) batch: usize,
    /// Tokens of each row with its padding.
    pub(super) len: usize,
    /// Tokens of all rows without padding.
    pub(super) tokens: usize,
    /// Tokens that are predicted, without labels.
    pub(super) predicted: usize,
    /// Pairs of tokens of a sequence, which attention has scores for.
    pub(super) scores: usize,
    /// Samples of the one row of TRL's padding-free batch, which attention keeps apart; 0 of any other.
    pub(super) apart: usize,
    /// Tokens of a padded micro-batch without padding, if attention takes it out; else 0.
    pub(super) unpadded: usize,
}

impl Micro {
    /// Tokens of all rows with padding.
    pub(super) fn size(&self) -> usize {
        self.batch * self.len
    }

    /// True if a row is shorter than the micro-batch.
    pub(super) fn is_padded(&self) -> bool {
        self.tokens < self.size()
    }
}

impl Sequence {
    /// Adds a step of these samples, of which `tokens` gives the lengths.
    pub(super) fn push(&mut self, samples: &[u32], tokens: impl Fn(u32) -> usize, options: &DataOptions) {
        let lengths: Vec<usize> = samples
            .iter()
            .map(|&sample| tokens(sample).min(options.max_seq_length))
            .collect();
        self.push_laid_out(Layout::new(options).micro_batches(&lengths), samples, options);
    }

    /// Adds a step of these micro-batches of `samples`.
    pub(super) fn push_laid_out(&mut self, laid_out: Vec<LaidOut>, samples: &[u32], options: &DataOptions) {
        for laid in laid_out {
            self.push_micro_batch(laid, samples, options.packing.is_some());
        }
        self.end_step();
    }

    /// Adds a micro-batch of some of these samples to the step that [`end_step`](Self::end_step) ends.
    pub(super) fn push_micro_batch(&mut self, laid_out: LaidOut, samples: &[u32], is_packed: bool) {
        let LaidOut { micro, samples: places } = laid_out;
        let (batch, len) = match is_packed {
            true => (1, micro.sequences.tokens()),
            false => (micro.sequences.count(), micro.sequences.longest()),
        };
        self.micro.push(Micro {
            first: self.samples.len(),
            samples: places.len(),
            batch,
            len,
            tokens: micro.lengths.iter().map(|&length| length as usize).sum(),
            predicted: micro.counted(),
            scores: micro.sequences.scores(),
            apart: 0,
            unpadded: 0,
        });
        self.samples.extend(places.iter().map(|&(place, _)| samples[place]));
    }

    /// Adds a micro-batch of rows that TRL packed: padded to the longest, or one after the other in one row if
    /// `is_flat`.
    pub(super) fn push_rows<'a>(&mut self, rows: impl ExactSizeIterator<Item = &'a PackedRow>, is_flat: bool) {
        let (count, first) = (rows.len(), self.samples.len());
        let (mut tokens, mut longest) = (0, 0);
        for row in rows {
            self.samples.extend(&row.samples);
            (tokens, longest) = (tokens + row.tokens, longest.max(row.tokens));
        }
        let samples = self.samples.len() - first;
        let (batch, len, apart) = match is_flat {
            true => (1, tokens, samples),
            false => (count, longest, 0),
        };
        self.micro.push(Micro {
            first,
            samples,
            batch,
            len,
            tokens,
            predicted: tokens,
            scores: batch * len * len,
            apart,
            unpadded: 0,
        });
    }

    /// The steps of the rank with the largest micro-batch, and the rank, of steps of all ranks together; no rank if all
    /// are alike.
    pub(super) fn of_busiest_rank(self, world_size: usize) -> (Self, Option<usize>) {
        if world_size == 1 {
            return (self, None);
        }
        let mut largest = vec![0; world_size];
        for step in 0..self.len() {
            for (index, micro) in self.step(step).iter().enumerate() {
                let of_rank = &mut largest[index % world_size];
                *of_rank = micro.size().max(*of_rank);
            }
        }
        let busiest = (0..world_size).rev().max_by_key(|&rank| largest[rank]).unwrap_or(0);
        let are_alike = largest.iter().all(|size| *size == largest[0]);
        (self.of_rank(busiest, world_size), (!are_alike).then_some(busiest))
    }

    /// The steps of a rank. The ranks take micro-batches in turn, and one that comes too late for the last repeats the
    /// first of its step.
    fn of_rank(self, rank: usize, world_size: usize) -> Self {
        let (mut micro, mut ends) = (Vec::new(), Vec::new());
        for step in 0..self.len() {
            let all = self.step(step);
            match rank < all.len() {
                true => micro.extend(all.iter().skip(rank).step_by(world_size)),
                false => micro.extend(all.first()),
            }
            ends.push(micro.len());
        }
        Self { micro, ends, ..self }
    }

    /// Has attention take the padding out.
    pub(super) fn unpad(&mut self) {
        for micro in self.micro.iter_mut().filter(|micro| micro.is_padded()) {
            micro.unpadded = micro.tokens;
        }
    }

    /// Ends the step of the micro-batches since the last one.
    pub(super) fn end_step(&mut self) {
        self.ends.push(self.micro.len());
    }

    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Number of micro-batches.
    pub(super) fn micro_batches(&self) -> usize {
        self.micro.len()
    }

    /// True if all steps have as many micro-batches, and these are of one size, all or none with padding.
    pub(super) fn is_even(&self) -> bool {
        let shape = |micro: &Micro| (micro.batch, micro.len, micro.is_padded(), micro.apart, micro.unpadded);
        let micro_batches = |step| self.range(step).len();
        self.micro.windows(2).all(|pair| shape(&pair[0]) == shape(&pair[1]))
            && (1..self.len()).all(|step| micro_batches(step) == micro_batches(0))
    }

    /// The micro-batches of the step with this index, as indices of micro-batches.
    pub(super) fn range(&self, step: usize) -> Range<usize> {
        let start = if step == 0 { 0 } else { self.ends[step - 1] };
        start..self.ends[step]
    }

    /// The micro-batches of the step with this index.
    pub(super) fn step(&self, step: usize) -> &[Micro] {
        &self.micro[self.range(step)]
    }

    /// The samples of a micro-batch.
    pub(super) fn samples(&self, micro: &Micro) -> &[u32] {
        &self.samples[micro.first..micro.first + micro.samples]
    }

    /// The step's micro-batch with the largest key; the first of equal ones.
    pub(super) fn largest<K: Ord>(&self, step: usize, key: impl Fn(&Micro) -> K) -> usize {
        let range = self.range(step);
        let first = range.start;
        range
            .max_by_key(|&index| (key(&self.micro[index]), std::cmp::Reverse(index)))
            .unwrap_or(first)
    }
}
