//! Sums over the rows of a matrix, in parts that are cut at fixed places and added up in order; multiples of its columns.

use rayon::prelude::*;

use super::{Element, InstructionSet, rows::for_rows};

/// The most parts that rows are cut into.
const PARTS: usize = 32;
/// The fewest rows of a part.
const ROWS: usize = 16;

/// Writes the sum of each column of `x` to `out`; a row has `out.len()` elements. `scratch` has [`scratch_len`] elements.
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

/// Writes the dot product of each column of `a` with that of `b` to `out`; a row has `out.len()` elements. `scratch` has
/// [`scratch_len`] elements.
pub fn dot_products<A: Element, B: Element>(a: &[A], b: &[B], scratch: &mut [f32], out: &mut [f32]) {
    assert_eq!(a.len(), b.len());
    let cols = out.len();
    sum_rows(
        rows(a, cols),
        scratch,
        out,
        #[inline(always)]
        |row, sums| {
            let (a, b) = (&a[row * cols..][..cols], &b[row * cols..][..cols]);
            for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
                *sum += a.widen() * b.widen();
            }
        },
    );
}

/// Writes `x` with each column multiplied by its element of `scale` to `out`; a row has `scale.len()` elements.
pub fn scale_columns<E: Element>(x: &[E], scale: &[f32], out: &mut [E]) {
    let cols = scale.len();
    assert!(x.len() == out.len() && rows(x, cols) * cols == x.len());
    for_rows(
        out,
        cols,
        #[inline(always)]
        |start, part| {
            for (x, out) in x[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols)) {
                for ((out, x), scale) in out.iter_mut().zip(x).zip(scale) {
                    *out = E::narrow(x.widen() * scale);
                }
            }
        },
    );
}

/// The rows of a matrix with `cols` columns; none without columns.
fn rows<E>(x: &[E], cols: usize) -> usize {
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

/// Writes the sums of `add(row, sums)` over all rows to `out`, which has any width. `scratch` has [`scratch_len`] elements.
/// Neither need be cleared. `add` is to be `#[inline(always)]`.
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
    use crate::kernels::{
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

    fn sums_and_products_leave_nothing_out<E: Element>() {
        at_each_level(|level| {
            for (rows, cols) in SHAPES {
                let [a, b] = [1, 2].map(|seed| narrowed::<E>(&values(rows * cols, seed)));
                let (wide_a, wide_b) = (
                    |at: usize| f64::from(a[at].widen()),
                    |at: usize| f64::from(b[at].widen()),
                );
                let what = format!("{level:?}, {rows} x {cols}");
                let want = plain(rows, cols, wide_a);
                let got = written(rows, cols, |scratch, out| sums(&a, scratch, out));
                assert_close(got, &want, 1e-4, &what);
                let got = written(rows, cols, |scratch, out| dot_products(&a, &b, scratch, out));
                assert_close(got, &plain(rows, cols, |at| wide_a(at) * wide_b(at)), 1e-4, &what);
            }
        });
    }

    #[test]
    fn no_row_is_left_out() {
        sums_and_products_leave_nothing_out::<f32>();
        sums_and_products_leave_nothing_out::<bf16>();
    }

    #[test]
    fn columns_are_scaled() {
        at_each_level(|level| {
            for (rows, cols) in SHAPES {
                let (x, scale) = (narrowed::<bf16>(&values(rows * cols, 1)), values(cols, 2));
                let mut out = vec![bf16::NAN; rows * cols];
                scale_columns(&x, &scale, &mut out);
                for (at, (x, out)) in x.iter().zip(&out).enumerate() {
                    let want = bf16::from_f32(x.to_f32() * scale[at % cols]);
                    assert_eq!(*out, want, "{level:?}, {rows} x {cols}: {at}");
                }
            }
        });
    }

    #[test]
    fn a_sum_does_not_depend_on_the_number_of_threads() {
        let (a, b) = (values(1000 * 33, 1), values(1000 * 33, 2));
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let sums = || written(1000, 33, |scratch, out| sums(&a, scratch, out));
            let dots = || written(1000, 33, |scratch, out| dot_products(&a, &b, scratch, out));
            pool.install(|| (sums(), dots()))
        };
        assert_eq!(run(1), run(5));
    }

    #[test]
    fn a_matrix_without_columns_has_no_sums() {
        assert!(written(0, 0, |scratch, out| sums::<f32>(&[], scratch, out)).is_empty());
    }
}
