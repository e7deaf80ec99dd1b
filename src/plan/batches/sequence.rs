//! All micro-batches of a training on uneven data, in their order.

use std::ops::Range;

use crate::options::Padding;

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
    pub(super) batch: usize,
    /// Tokens of each sample with its padding.
    pub(super) len: usize,
    /// Tokens of all samples without padding.
    pub(super) tokens: usize,
}

impl Micro {
    /// Tokens of all samples with padding.
    pub(super) fn size(&self) -> usize {
        self.batch * self.len
    }

    /// True if a sample is shorter than the micro-batch.
    pub(super) fn is_padded(&self) -> bool {
        self.tokens < self.size()
    }
}

impl Sequence {
    /// Adds a micro-batch to the step that [`end_step`](Self::end_step) ends. `tokens` is the length of a sample, and samples
    /// are padded to `max_seq_length` or to the longest.
    pub(super) fn push(
        &mut self,
        samples: &[u32],
        tokens: impl Fn(u32) -> usize,
        padding: Padding,
        max_seq_length: usize,
    ) {
        let lengths = || samples.iter().map(|&sample| tokens(sample).min(max_seq_length));
        let longest = lengths().max().unwrap_or(0);
        self.micro.push(Micro {
            first: self.samples.len(),
            batch: samples.len(),
            len: match padding {
                Padding::MaxLength => max_seq_length,
                Padding::Longest => longest,
            },
            tokens: lengths().sum(),
        });
        self.samples.extend_from_slice(samples);
    }

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
        let shape = |micro: &Micro| (micro.batch, micro.len, micro.is_padded());
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
        &self.samples[micro.first..micro.first + micro.batch]
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
