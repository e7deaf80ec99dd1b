//! Sums over the rows of a matrix, in parts that are cut at fixed places and added up in order.

use rayon::prelude::*;

use super::{Element, InstructionSet};
use crate::Dispatch as _;

/// The most parts that rows are cut into.
const PARTS: usize = 32;
/// The fewest rows of a part.
const ROWS: usize = 16;

/// Writes the sum of each column of `x` to `out`; a row has `out.len()` elements. `scratch` has [`scratch_len`]
/// elements.
pub fn sums<E: Element>(x: &[E], scratch: &mut [f32], out: &mut [f32]) {
    let cols = out.len();
    sum_rows(
        rows(x, cols),
        scratch,
        out,
        #[inline(always)]
        |row, sums| {
            for (sum, x) in sums.iter_mut().zip(&x[row * cols..][..cols]) {
                *sum += x.widen();
            }
        },
    );
}

/// The rows of a matrix with `cols` columns; none without columns.
pub(super) fn rows<E>(x: &[E], cols: usize) -> usize {
    let rows = x.len().checked_div(cols).unwrap_or(0);
    assert_eq!(rows * cols, x.len(), "a matrix with {cols} columns");
    rows
}

/// The parts that so many rows are cut into.
fn parts(rows: usize) -> usize {
    rows.div_ceil(rows_of_part(rows))
}

fn rows_of_part(rows: usize) -> usize {
    rows.div_ceil(PARTS).max(ROWS)
}

/// The elements of scratch for sums of `width` elements over so many rows.
pub fn scratch_len(rows: usize, width: usize) -> usize {
    parts(rows) * width
}

/// Writes the sums of `add(row, sums)` over all rows to `out`, which has any width. `scratch` has [`scratch_len`]
/// elements. Neither need be cleared. `add` is to be `#[inline(always)]`.
pub fn sum_rows(rows: usize, scratch: &mut [f32], out: &mut [f32], add: impl Fn(usize, &mut [f32]) + Sync) {
    let (part, width) = (rows_of_part(rows), out.len());
    assert_eq!(scratch.len(), scratch_len(rows, width));
    out.fill(0.0);
    if width == 0 {
        return;
    }
    let level = InstructionSet::current();
    scratch.par_chunks_mut(width).enumerate().for_each(|(at, sums)| {
        sums.fill(0.0);
        level.run(
            #[inline(always)]
            || {
                for row in at * part..rows.min((at + 1) * part) {
                    add(row, sums);
                }
            },
        );
    });
    for part in scratch.chunks_exact(width) {
        for (sum, value) in out.iter_mut().zip(part) {
            *sum += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    const SHAPES: [(usize, usize); 8] = [
        (0, 3),
        (1, 1),
        (15, 33),
        (16, 2),
        (17, 65),
        (31, 64),
        (700, 31),
        (3, 20_001),
    ];

    /// For each column, the sum of `term(index)` over its elements, in double precision.
    fn plain(rows: usize, cols: usize, term: impl Fn(usize) -> f64) -> Vec<f64> {
        let sum = |col| (0..rows).map(|row| term(row * cols + col)).sum();
        (0..cols).map(sum).collect()
    }

    /// What the kernel writes to memory that is not cleared.
    fn written(rows: usize, cols: usize, kernel: impl Fn(&mut [f32], &mut [f32])) -> Vec<f32> {
        let (mut scratch, mut out) = (vec![f32::NAN; scratch_len(rows, cols)], vec![f32::NAN; cols]);
        kernel(&mut scratch, &mut out);
        out
    }

    fn sums_leave_nothing_out<E: Element>() {
        at_each_level(|level| {
            for (rows, cols) in SHAPES {
                let x = narrowed::<E>(&values(rows * cols, 1));
                let what = format!("{level:?}, {rows} x {cols}");
                let want = plain(rows, cols, |at| f64::from(x[at].widen()));
                let got = written(rows, cols, |scratch, out| sums(&x, scratch, out));
                assert_close(got, &want, 1e-4, &what);
            }
        });
    }

    #[test]
    fn no_row_is_left_out() {
        sums_leave_nothing_out::<f32>();
        sums_leave_nothing_out::<bf16>();
    }

    #[test]
    fn a_sum_does_not_depend_on_the_number_of_threads() {
        let x = values(1000 * 33, 1);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| written(1000, 33, |scratch, out| sums(&x, scratch, out)))
        };
        assert_eq!(run(1), run(5));
    }

    #[test]
    fn a_matrix_without_columns_has_no_sums() {
        assert!(written(0, 0, |scratch, out| sums::<f32>(&[], scratch, out)).is_empty());
    }
}
