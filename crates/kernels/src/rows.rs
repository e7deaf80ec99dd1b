//! Work on rows, shared out over rayon's threads at fixed places.

use options::InstructionSet;
use rayon::prelude::*;

use super::arithmetic::Arithmetic;
use crate::Dispatch as _;

/// Elements that are worth handing to another thread.
pub(super) const PART: usize = 16 * 1024;

/// How many rows of `cols` elements make a part.
pub(super) fn rows_per_part(cols: usize) -> usize {
    (PART / cols.max(1)).max(1)
}

/// Calls `compute(first element, part)` for parts of `out`, each a whole number of rows, as code for the instruction
/// set in use: `compute` is to be `#[inline(always)]`, as [`InstructionSet::run`] says.
pub(super) fn for_rows<T: Send>(out: &mut [T], cols: usize, compute: impl Fn(usize, &mut [T]) + Sync) {
    for_rows_by(
        out,
        cols,
        #[inline(always)]
        |_, start, part| compute(start, part),
    );
}

/// [`for_rows`], where `compute` is told how to multiply and add.
pub(super) fn for_rows_by<T: Send>(out: &mut [T], cols: usize, compute: impl Fn(Arithmetic, usize, &mut [T]) + Sync) {
    let part = rows_per_part(cols) * cols.max(1);
    let level = InstructionSet::current();
    out.par_chunks_mut(part).enumerate().for_each(|(index, chunk)| {
        level.compute(
            #[inline(always)]
            |arithmetic| compute(arithmetic, index * part, chunk),
        );
    });
}
