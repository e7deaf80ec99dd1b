//! Grouped-query attention over `[batch, len, heads, head_dim]`, causal or to a sample's first keys, in blocks of 32 queries
//! by 32 keys: the score matrix is never held, blocks that are hidden are not computed, grouped heads share their keys and
//! values, and the backward pass computes the probabilities again from the rows' log-sum-exps (Dao et al. 2022,
//! arXiv:2205.14135).
//!
//! Sums are float32, products of either [`Number`]. Operands are packed from, and results written to, the interleaved
//! layout: nothing of a tensor's size is held.
//!
//! Weights can be dropped: the masks are functions, drawn block by block in both passes.
//!
//! In the blocks on the diagonal, later keys have the weight zero. That would not keep what is not finite in them from
//! earlier queries, as 0 · NaN is NaN; so whatever gives something that is not finite is computed again, with care.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod backward;
mod forward;
mod head;
mod number;
mod pattern;
mod round;
#[cfg(test)]
mod tests;
mod weights;

use std::ops::Range;

pub use backward::{Gradients, Saved, backward};
pub use forward::forward;
pub use number::Number;
pub use pattern::{Keys, Pattern};

use super::{
    Element, InstructionSet,
    gemm::{
        block::{BLOCK, Block, Session},
        pack::EDGE,
        store::Output,
    },
};

/// Heads, and what they are computed on.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub batch: usize,
    pub len: usize,
    pub heads: usize,
    /// Heads of keys and values, of which each serves `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    pub head_dim: usize,
}

impl Shape {
    #[inline]
    fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    #[inline]
    fn scale(self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    fn queries(self) -> usize {
        self.batch * self.len * self.heads * self.head_dim
    }

    fn keys(self) -> usize {
        self.batch * self.len * self.kv_heads * self.head_dim
    }

    /// The length, filled up to whole blocks.
    #[inline]
    fn padded(self) -> usize {
        self.len.next_multiple_of(EDGE)
    }

    /// Panels of 32 columns that a head's dimensions fill.
    #[inline]
    fn panels(self) -> usize {
        self.head_dim.div_ceil(EDGE)
    }

    /// A panel's dimensions.
    #[inline]
    fn panel(self, panel: usize) -> Range<usize> {
        panel * EDGE..self.head_dim.min(panel * EDGE + EDGE)
    }
}

/// A block of a product whose weights are zero on one side of the diagonal, where what is multiplied by zero is not finite:
/// only the other side counts.
#[derive(Clone, Copy)]
struct Masked {
    block: usize,
    /// Whether `left[row][place] · right[place][column]` counts.
    counts: fn(row: usize, place: usize, column: usize) -> bool,
}

/// As [`Number::multiply_blocks`], with a block among them, if any, that is masked.
fn multiply_masked<P: Number>(
    session: &Session,
    (left, right, blocks): (&[P], &[P], usize),
    masked: Option<Masked>,
    shape: (usize, usize),
    out: &mut Block,
    mut accumulate: bool,
) {
    let Some(Masked { block, counts }) = masked else {
        return P::multiply_blocks(session, (left, right, blocks), shape, out, accumulate);
    };
    for part in [0..block, block + 1..blocks]
        .into_iter()
        .filter(|part| !part.is_empty())
    {
        let (left, right) = (&left[part.start * BLOCK..], &right[part.start * BLOCK..]);
        P::multiply_blocks(session, (left, right, part.len()), shape, out, accumulate);
        accumulate = true;
    }
    if !accumulate {
        *out = Block::ZERO;
    }
    let (left, right) = (&left[block * BLOCK..], &right[block * BLOCK..]);
    for row in 0..EDGE {
        for place in 0..EDGE {
            let weight = left[P::left_at(row, place, EDGE)].widen();
            for (column, out) in out.row_mut(row).iter_mut().enumerate() {
                if counts(row, place, column) {
                    *out += weight * right[P::right_at(place, column)].widen();
                }
            }
        }
    }
}

fn is_finite<E: Element>(values: &[E]) -> bool {
    values.iter().all(|value| value.widen().is_finite())
}

/// A head's part of an output `[batch, len, heads, head_dim]`.
#[derive(Clone, Copy)]
struct Destination<'a, E> {
    out: &'a Output<'a, E>,
    sample: usize,
    head: usize,
    shape: Shape,
}

impl<E: Element> Destination<'_, E> {
    fn columns(&self, dimensions: Range<usize>) -> Range<usize> {
        let first = self.head * self.shape.head_dim;
        first + dimensions.start..first + dimensions.end
    }

    /// Asks for the cache lines of rows that will be written.
    fn prefetch(&self, rows: Range<usize>) {
        let first = self.sample * self.shape.len;
        let rows = first + rows.start..first + rows.end.min(self.shape.len);
        self.out.prefetch(rows, self.columns(0..self.shape.head_dim));
    }

    /// Writes the rows from `first` on: `blocks[panel]` has them in its rows, and each is multiplied by its factor. Returns
    /// whether all is finite.
    ///
    /// # Safety
    /// Nobody else has these rows.
    unsafe fn write(&self, level: InstructionSet, first: usize, blocks: &[Block], factors: &[f32; EDGE]) -> bool {
        level.run(
            #[inline(always)]
            || {
                let mut finite = true;
                for (row, (position, factor)) in (first..self.shape.len).zip(factors).enumerate() {
                    for (panel, block) in blocks.iter().enumerate() {
                        let columns = self.columns(self.shape.panel(panel));
                        // SAFETY: the caller's promise.
                        let out = unsafe { self.out.row(self.sample * self.shape.len + position, columns) };
                        // The whole panels are written by code without a loop.
                        finite &= match out.as_mut_array::<EDGE>() {
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
fn write<E: Element>(out: &mut [E], values: &[f32; EDGE], factor: f32) -> bool {
    let mut finite = true;
    for (out, value) in out.iter_mut().zip(values) {
        let value = value * factor;
        finite &= value.is_finite();
        *out = E::narrow(value);
    }
    finite
}
