//! Sequences of tokens, one after the other.

use std::ops::Range;

/// The sequences that the tokens of a micro-batch are cut into. No token sees another sequence, and positions restart
/// in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequences {
    /// The end of each sequence, which is the start of the next.
    ends: Vec<usize>,
}

impl Sequences {
    /// Sequences of these lengths.
    pub fn of(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut end = 0;
        let ends = lengths.into_iter().map(|len| {
            end += len;
            end
        });
        Self { ends: ends.collect() }
    }

    /// `count` sequences of one length.
    pub fn even(count: usize, len: usize) -> Self {
        Self::of(std::iter::repeat_n(len, count))
    }

    /// Number of sequences.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Tokens of all sequences.
    pub fn tokens(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Tokens of the longest sequence.
    pub fn longest(&self) -> usize {
        self.iter().map(|tokens| tokens.len()).max().unwrap_or(0)
    }

    /// Pairs of tokens of one sequence, which attention has scores for.
    pub fn scores(&self) -> usize {
        self.iter().map(|tokens| tokens.len() * tokens.len()).sum()
    }

    /// The tokens of a sequence.
    pub fn get(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// The tokens of each sequence.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        (0..self.count()).map(|index| self.get(index))
    }

    /// The sequence of a token, and the token's position there.
    #[inline]
    pub fn locate(&self, token: usize) -> (usize, usize) {
        let index = self.ends.partition_point(|&end| end <= token);
        (index, token - self.get(index).start)
    }

    /// The part of each sequence in `values`, which has `width` of them for a token.
    pub(super) fn split_mut<'a, T>(&self, mut values: &'a mut [T], width: usize) -> Vec<&'a mut [T]> {
        let part = |tokens: Range<usize>| {
            let (part, rest) = std::mem::take(&mut values).split_at_mut(tokens.len() * width);
            values = rest;
            part
        };
        self.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_in_their_sequences() {
        let sequences = Sequences::of([3, 1, 4]);
        assert_eq!((sequences.count(), sequences.tokens(), sequences.longest()), (3, 8, 4));
        assert_eq!(sequences.iter().collect::<Vec<_>>(), [0..3, 3..4, 4..8]);
        let located: Vec<_> = (0..8).map(|token| sequences.locate(token)).collect();
        assert_eq!(
            located,
            [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]
        );
        assert_eq!(Sequences::even(2, 3), Sequences::of([3, 3]));
        let mut values: Vec<usize> = (0..16).collect();
        assert_eq!(sequences.split_mut(&mut values, 2)[1], [6, 7]);
    }
}
