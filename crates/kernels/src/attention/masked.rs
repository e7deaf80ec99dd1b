//! Products of blocks on the diagonal, where a weight of zero meets what is not finite.

use super::number::Number;
use crate::{
    Element,
    gemm::{
        block::{BLOCK, Block, TILE},
        multiply::Session,
    },
};

/// A block of a product whose weights are zero on one side of the diagonal, where what is multiplied by zero is not
/// finite: only the other side counts.
#[derive(Clone, Copy)]
pub(super) struct Masked {
    pub(super) block: usize,
    /// Whether `left[row][place] · right[place][column]` counts.
    pub(super) counts: fn(row: usize, place: usize, column: usize) -> bool,
}

/// As [`Number::multiply_blocks`], with a block among them, if any, that is masked.
pub(super) fn multiply_masked<P: Number>(
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
    for row in 0..TILE {
        for place in 0..TILE {
            let weight = left[P::left_at(row, place, TILE)].widen();
            for (column, out) in out.row_mut(row).iter_mut().enumerate() {
                if counts(row, place, column) {
                    *out += weight * right[P::right_at(place, column)].widen();
                }
            }
        }
    }
}

pub(super) fn is_finite<E: Element>(values: &[E]) -> bool {
    values.iter().all(|value| value.widen().is_finite())
}
