//! What a block's product takes: operands packed, or where they lie.

use std::ops::Range;

use super::{
    block::TILE,
    operand::{Operand, Order},
    pack::Packed,
};
use crate::InstructionSet;

/// Panels for which a left block is never worth packing.
const FEW: usize = 4;
/// Bytes: rows that lie a multiple of them apart share too few sets of the first-level cache for 32 of them to stay
/// there. Vectors read a row at a time, and do not mind.
const CROWDED: usize = 2048;

/// 32 rows of a left operand: a packed block, or rows that lie in their matrix as the products can take them.
#[derive(Debug, Clone, Copy)]
pub struct Left<'a, P> {
    pub(super) values: &'a [P],
    /// Elements from one row to the next.
    pub(super) row: usize,
    /// Elements from one step of the depth to the next.
    pub(super) step: usize,
    /// The first of the four rows that tiles ask for while they multiply a whole block, counted from the block's first.
    pub(super) ahead: usize,
}

impl<'a, P: Packed> Left<'a, P> {
    /// A block as `pack_left` makes it.
    pub fn packed(values: &'a [P], depth: usize) -> Self {
        let (row, step) = P::left_strides(depth);
        Self {
            values,
            row,
            step,
            ahead: 0,
        }
    }

    /// A block of a left operand where it lies, if the instruction set takes it from there to multiply it with so many
    /// panels.
    pub fn lent(
        level: InstructionSet,
        operand: Operand<'a, P>,
        rows: Range<usize>,
        depth: Range<usize>,
        panels: usize,
    ) -> Option<Self> {
        let is_whole = rows.len() == TILE && depth.len().is_multiple_of(P::STEP);
        if !is_whole || operand.order != Order::DepthLast {
            return None;
        }
        let (values, stride) = operand.source.lend()?;
        let is_crowded = P::uses_tiles(level) && (stride * size_of::<P>()).is_multiple_of(CROWDED);
        if is_crowded && panels > FEW {
            return None;
        }
        Some(Self {
            values: &values[rows.start * stride + depth.start..],
            row: stride,
            step: P::STEP,
            ahead: 0,
        })
    }

    /// This block, of which tiles ask for the four rows from `row` on, not for its first four.
    pub fn asking_for(self, row: usize) -> Self {
        Self { ahead: row, ..self }
    }

    /// Panics where the first `rows` rows have no `steps` steps.
    pub(super) fn check(&self, rows: usize, steps: usize) {
        if rows > 0 && steps > 0 {
            assert!((rows - 1) * self.row + (steps - 1) * self.step + P::STEP <= self.values.len());
        }
    }
}

/// Columns of a right operand, at most 32.
#[derive(Debug, Clone, Copy)]
pub enum Right<'a, P> {
    /// A panel as `pack_right` makes it.
    Panel(&'a [P]),
    /// 32 columns where they lie: rows from the front of the values, so many elements apart.
    Rows(&'a [P], usize),
    /// Columns as `pack_left` packs rows.
    Columns(&'a [P]),
}

/// Two operands of a block's product.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a, P> {
    /// Rows on the left.
    pub left: Left<'a, P>,
    /// Columns on the right.
    pub right: Right<'a, P>,
    /// Places of both; with [`Right::Rows`], a multiple of the format's step.
    pub depth: usize,
}
