//! A block of a product's output, and the sizes that every instruction set multiplies in.

use crate::Dispatch as _;
use crate::InstructionSet;

/// Rows of a left block and columns of a right panel.
pub const TILE: usize = 32;
/// Rows that a loop multiplies at a time, but for AVX2's.
pub(super) const GROUP: usize = 8;
/// Elements of a block of the output.
pub const BLOCK: usize = TILE * TILE;

/// A block of the output, row by row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Block(pub [f32; BLOCK]);

impl Block {
    /// A block of zeros.
    pub const ZERO: Self = Self([0.0; BLOCK]);

    /// The columns of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32; TILE] {
        &self.0.as_chunks().0[row]
    }

    /// True if the elements of the first rows and columns are finite.
    pub fn is_finite(&self, level: InstructionSet, rows: usize, cols: usize) -> bool {
        level.run(
            #[inline(always)]
            || {
                let largest = |values: &[f32]| values.iter().map(|value| value.to_bits() & 0x7fff_ffff).max();
                let rows = &self.0[..rows * TILE];
                let largest = match cols {
                    TILE => largest(rows),
                    _ => rows.chunks(TILE).filter_map(|row| largest(&row[..cols])).max(),
                };
                largest < Some(f32::INFINITY.to_bits())
            },
        )
    }

    /// The columns of a row, to be written.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f32; TILE] {
        &mut self.0.as_chunks_mut().0[row]
    }
}

/// A combination of a block's sums: `row_scale · scale · sum + bias + residual`, rounded once. All but the sum may be
/// missing.
pub struct Combination<'a, E> {
    /// A factor for each row.
    pub row_scale: Option<&'a [f32; TILE]>,
    /// A factor for each column.
    pub scale: Option<[f32; TILE]>,
    /// A summand for each column.
    pub bias: Option<[f32; TILE]>,
    /// Rows of summands, and elements from one to the next.
    pub residual: Option<(&'a [E], usize)>,
}

impl<E> Combination<'_, E> {
    /// The sums themselves, rounded.
    pub const SUMS: Self = Self {
        row_scale: None,
        scale: None,
        bias: None,
        residual: None,
    };
}
