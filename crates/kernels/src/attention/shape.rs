//! The sizes of an attention problem.

use std::ops::Range;

use super::scores::Scores;
use crate::{Sequences, gemm::block::TILE};

/// Heads, and the sequences that they are computed on.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// The sequences, padding included.
    pub sequences: &'a Sequences,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, of which each serves `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    /// Dimensions of a head.
    pub head_dim: usize,
    /// How scores come from products of queries and keys.
    pub scores: Scores,
}

impl Shape<'_> {
    pub(super) fn queries(self) -> usize {
        self.sequences.tokens() * self.query_width()
    }

    pub(super) fn keys(self) -> usize {
        self.sequences.tokens() * self.key_width()
    }

    /// Elements of a token's queries.
    pub(super) fn query_width(self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of a token's keys.
    pub(super) fn key_width(self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The sizes of a sequence of `len` tokens.
    pub(super) fn of_sequence(self, len: usize) -> SequenceShape {
        let Self {
            heads,
            kv_heads,
            head_dim,
            scores,
            ..
        } = self;
        SequenceShape {
            len,
            heads,
            kv_heads,
            head_dim,
            scores,
        }
    }
}

/// The sizes of one sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct SequenceShape {
    /// Positions, padding included.
    pub(super) len: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) scores: Scores,
}

impl SequenceShape {
    #[inline]
    pub(super) fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    /// The length, filled up to whole blocks.
    #[inline]
    pub(super) fn padded(self) -> usize {
        self.len.next_multiple_of(TILE)
    }

    /// Panels of 32 columns that a head's dimensions fill.
    #[inline]
    pub(super) fn panels(self) -> usize {
        self.head_dim.div_ceil(TILE)
    }

    /// A panel's dimensions.
    #[inline]
    pub(super) fn panel(self, panel: usize) -> Range<usize> {
        panel * TILE..self.head_dim.min(panel * TILE + TILE)
    }
}
