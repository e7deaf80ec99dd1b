//! Where a head's rows of an output are written.

use std::ops::Range;

use super::shape::SequenceShape;
use crate::kernels::{
    Element, InstructionSet,
    gemm::{
        block::{Block, TILE},
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

    /// Writes the rows from `first` on: `blocks[panel]` has them in its rows, and each is multiplied by its factor. Returns
    /// whether all is finite.
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
        level.run(
            #[inline(always)]
            || {
                let mut finite = true;
                for (row, (position, factor)) in (first..self.shape.len).zip(factors).enumerate() {
                    for (panel, block) in blocks.iter().enumerate() {
                        let columns = self.columns(self.shape.panel(panel));
                        // SAFETY: the caller's promise.
                        let out = unsafe { self.out.row(position, columns) };
                        // The whole panels are written by code without a loop.
                        finite &= match out.as_mut_array::<TILE>() {
                            Some(out) => write(out, block.row(row), *factor),
                            None => write(out, block.row(row), *factor),
                        };
                    }
                }
                finite
            },
        )
    }
}

/// Writes the values' multiples, and returns whether they are finite.
#[inline(always)]
fn write<E: Element>(out: &mut [E], values: &[f32; TILE], factor: f32) -> bool {
    let mut finite = true;
    for (out, value) in out.iter_mut().zip(values) {
        let value = value * factor;
        finite &= value.is_finite();
        *out = E::narrow(value);
    }
    finite
}
