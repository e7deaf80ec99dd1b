//! What a product is taken of: matrices that are read row by row, in whatever format they are stored.

use std::ops::Range;

use half::{bf16, f16};

use crate::Dispatch as _;
use crate::{Element, InstructionSet};

/// A format that products are computed from: bfloat16 pairs, or float32.
pub trait Number: Element {
    /// Packed depths are multiples of this.
    const STEP: usize;
    /// Zero, which packed operands are filled up with.
    const ZERO: Self;
}

impl Number for bf16 {
    const STEP: usize = 32;
    const ZERO: Self = bf16::ZERO;
}

impl Number for f32 {
    const STEP: usize = 1;
    const ZERO: Self = 0.0;
}

/// A matrix that gives its elements in the format of a product.
pub trait OperandReader<P>: Sync {
    /// Elements `cols` of a row: the stored ones, or written to the front of `buffer`, which is as long.
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P];

    /// The elements themselves, with the elements from one row to the next, where they are stored in this format.
    fn lend(&self) -> Option<(&[P], usize)> {
        None
    }

    /// Asks for the cache lines of a part of a row that will be read soon.
    fn prefetch(&self, row: usize, cols: Range<usize>) {
        let _ = (row, cols);
    }

    /// How many rows ahead they are asked for where short parts of rows are read one after another.
    fn rows_ahead(&self) -> usize {
        ROWS_AHEAD
    }
}

/// See [`OperandReader::rows_ahead`].
pub const ROWS_AHEAD: usize = 8;

/// Asks for the cache lines of a slice, into the second level.
pub fn prefetch<E>(values: &[E]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks((64 / size_of::<E>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch changes nothing that can be seen.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// A matrix in a slice, `stride` elements from one row to the next.
#[derive(Debug, Clone, Copy)]
pub struct Dense<'a, E> {
    values: &'a [E],
    stride: usize,
}

impl<'a, E> Dense<'a, E> {
    /// A matrix whose rows begin `stride` elements apart.
    pub fn new(values: &'a [E], stride: usize) -> Self {
        Self { values, stride }
    }

    fn slice(&self, row: usize, cols: Range<usize>) -> &'a [E] {
        &self.values[row * self.stride..][cols]
    }
}

impl<E: Sync, P: FromFormat<E>> OperandReader<P> for Dense<'_, E> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        P::read(self.slice(row, cols), buffer)
    }

    fn lend(&self) -> Option<(&[P], usize)> {
        P::lend(self.values).map(|values| (values, self.stride))
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        prefetch(self.slice(row, cols));
    }
}

/// A product's format that can be made of a stored one.
pub trait FromFormat<E>: Number {
    /// The values themselves where they are of this format, else converted into the buffer.
    fn read<'a>(values: &'a [E], buffer: &'a mut [Self]) -> &'a [Self];

    /// The values themselves, where they are of this format.
    fn lend(_: &[E]) -> Option<&[Self]> {
        None
    }
}

impl FromFormat<bf16> for bf16 {
    fn read<'a>(values: &'a [bf16], _: &'a mut [bf16]) -> &'a [bf16] {
        values
    }

    fn lend(values: &[bf16]) -> Option<&[bf16]> {
        Some(values)
    }
}

impl FromFormat<f32> for f32 {
    fn read<'a>(values: &'a [f32], _: &'a mut [f32]) -> &'a [f32] {
        values
    }

    fn lend(values: &[f32]) -> Option<&[f32]> {
        Some(values)
    }
}

macro_rules! convert {
    ($from:ty => $to:ty) => {
        impl FromFormat<$from> for $to {
            fn read<'a>(values: &'a [$from], buffer: &'a mut [$to]) -> &'a [$to] {
                InstructionSet::current().run(
                    #[inline(always)]
                    || {
                        for (to, from) in buffer.iter_mut().zip(values) {
                            *to = <$to as Element>::narrow(from.widen());
                        }
                    },
                );
                buffer
            }
        }
    };
}
convert!(f32 => bf16);
convert!(f16 => bf16);
convert!(bf16 => f32);
convert!(f16 => f32);

/// Which way a matrix lies in a product: the *depth* is the dimension that is summed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Stored rows run along the depth: `[edge, depth]`.
    DepthLast,
    /// Stored rows are places along the depth: `[depth, edge]`.
    DepthFirst,
}

/// One side of a product.
#[derive(Clone, Copy)]
pub struct Operand<'a, P> {
    /// The stored matrix.
    pub source: &'a dyn OperandReader<P>,
    /// The direction of its rows.
    pub order: Order,
}

impl<'a, P> Operand<'a, P> {
    /// Whether both are the same view of the same source.
    pub(super) fn is(self, other: Self) -> bool {
        std::ptr::addr_eq(self.source, other.source) && self.order == other.order
    }

    /// A matrix stored `[edge, depth]`: x of `x · Wᵀ`, and W too.
    pub fn depth_last(source: &'a dyn OperandReader<P>) -> Self {
        Self {
            source,
            order: Order::DepthLast,
        }
    }

    /// A matrix stored `[depth, edge]`: W of `dy · W`.
    pub fn depth_first(source: &'a dyn OperandReader<P>) -> Self {
        Self {
            source,
            order: Order::DepthFirst,
        }
    }
}
