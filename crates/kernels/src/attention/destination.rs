//! Where a head's rows of an output are written.

use std::ops::Range;

use super::shape::SequenceShape;
use crate::{
    Element, InstructionSet,
    gemm::{
        block::{Block, Combination, TILE},
        epilogue::Output,
    },
};

/// A head's part of an output `[len, heads, head_dim]`.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a, E> {
    pub(super) out: &'a Output<'a, E>,
    pub(super) head: usize,
    pub(super) shape: SequenceShape,
}

impl<E: Element> Destination<'_, E> {
    fn columns(&self, dimensions: Range<usize>) -> Range<usize> {
        let first = self.head * self.shape.head_dim;
        first + dimensions.start..first + dimensions.end
    }

    /// Asks for the cache lines of rows that will be written.
    pub(super) fn prefetch(&self, rows: Range<usize>) {
        let rows = rows.start..rows.end.min(self.shape.len);
        self.out.prefetch(rows, self.columns(0..self.shape.head_dim));
    }

    /// Writes the rows from `first` on: `blocks[panel]` has them in its rows, and each is multiplied by its factor.
    /// Returns whether all that was written of the blocks was finite.
    ///
    /// # Safety
    /// Nobody else has these rows.
    pub(super) unsafe fn write(
        &self,
        level: InstructionSet,
        first: usize,
        blocks: &[Block],
        factors: &[f32; TILE],
    ) -> bool {
        let rows = first..self.shape.len.min(first + TILE);
        let combination = Combination {
            row_scale: Some(factors),
            ..Combination::SUMS
        };
        let mut finite = true;
        for (panel, block) in blocks.iter().enumerate() {
            let columns = self.columns(self.shape.panel(panel));
            finite &= block.is_finite(level, rows.len(), columns.len());
            // SAFETY: the caller's promise.
            unsafe { self.out.put_sums(rows.clone(), columns, block, &combination) };
        }
        finite
    }
}
