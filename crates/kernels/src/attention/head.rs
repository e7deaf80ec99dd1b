//! One head of a sequence in the interleaved layout.

use std::ops::Range;

use super::shape::SequenceShape;
use crate::gemm::{
    OperandReader,
    operand::{FromFormat, prefetch},
};

/// `[len, head_dim]` of `[len, heads, head_dim]`, with zeros below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a, E> {
    values: &'a [E],
    stride: usize,
    len: usize,
    head_dim: usize,
}

impl<'a, E> Head<'a, E> {
    /// One of `heads` heads.
    pub(super) fn new(values: &'a [E], shape: SequenceShape, heads: usize, head: usize) -> Self {
        Self {
            values: &values[head * shape.head_dim..],
            stride: heads * shape.head_dim,
            len: shape.len,
            head_dim: shape.head_dim,
        }
    }

    /// The first positions alone, with zeros below.
    pub(super) fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// A position's dimensions; nothing past the end.
    fn at(&self, position: usize) -> &'a [E] {
        if position < self.len {
            &self.values[position * self.stride..][..self.head_dim]
        } else {
            &[]
        }
    }

    /// Asks for the cache lines of positions that will be read.
    pub(super) fn prefetch_rows(&self, positions: Range<usize>) {
        positions.for_each(|position| prefetch(self.at(position)));
    }
}

impl<P: FromFormat<E>, E: Sync> OperandReader<P> for Head<'_, E> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        if row < self.len {
            P::read(&self.at(row)[cols], buffer)
        } else {
            let zeros = &mut buffer[..cols.len()];
            zeros.fill(P::ZERO);
            zeros
        }
    }

    fn lend(&self) -> Option<(&[P], usize)> {
        P::lend(self.values).map(|values| (values, self.stride))
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        if row < self.len {
            prefetch(&self.at(row)[cols]);
        }
    }
}
