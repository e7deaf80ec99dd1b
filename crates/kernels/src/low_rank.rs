//! Products of a matrix with thin factors, of which a low-rank optimizer's step is made, and its Gram matrices. The
//! matrix is stored row by row, in any format; factors and sums are float32, Gram matrices float64.

use rayon::prelude::*;

use super::{
    Element, InstructionSet,
    arithmetic::Arithmetic,
    reduce,
    rows::{PART, rows_per_part},
};
use crate::Dispatch as _;

/// Columns that a thread takes at a time.
const BLOCK: usize = 128;
/// Rows after which a sum is put aside, so that long sums stay exact enough.
const ROWS: usize = 512;
/// Rows of a Gram matrix that a thread takes at a time.
const GRAM_ROWS: usize = 16;

/// `out = matrix [rows, columns] · right [count, columns]ᵀ`, `[rows, count]`.
pub fn times<E: Element>(matrix: &[E], columns: usize, right: &[f32], count: usize, out: &mut [f32]) {
    assert!(matrix.len() * count == out.len() * columns && right.len() == count * columns);
    let rows = rows_per_part(columns);
    let level = InstructionSet::current();
    let parts = out.par_chunks_mut(rows * count).zip(matrix.par_chunks(rows * columns));
    parts.for_each(|(out, matrix)| {
        level.compute(
            #[inline(always)]
            |arithmetic| times_part(arithmetic, matrix, columns, right, out),
        );
    });
}

#[inline(always)]
fn times_part<E: Element>(arithmetic: Arithmetic, matrix: &[E], columns: usize, right: &[f32], out: &mut [f32]) {
    let count = right.len() / columns;
    for (row, out) in matrix.chunks(columns).zip(out.chunks_mut(count)) {
        for (right, out) in right.chunks(columns).zip(out) {
            *out = reduce::dot(arithmetic, row, right);
        }
    }
}

/// Sums that [`transposed_times`] works with.
pub fn sums(columns: usize, count: usize) -> usize {
    columns.div_ceil(BLOCK) * 2 * count * BLOCK
}

/// `out = left [rows, count]ᵀ · matrix [rows, columns]`, `[count, columns]`. `blocks` are as many zeros as [`sums`]
/// says.
pub fn transposed_times<E: Element>(
    matrix: &[E],
    columns: usize,
    left: &[f32],
    count: usize,
    blocks: &mut [f32],
    out: &mut [f32],
) {
    assert!(matrix.len().is_multiple_of(columns) && left.len() * columns == matrix.len() * count);
    // A block of columns at a time: sums that are put aside, and the sum of the rows since then.
    let part = count * BLOCK;
    assert!(blocks.len() == sums(columns, count) && out.len() == count * columns);
    let level = InstructionSet::current();
    blocks.par_chunks_mut(2 * part).enumerate().for_each(|(index, block)| {
        let start = index * BLOCK;
        let width = BLOCK.min(columns - start);
        let (sums, recent) = block.split_at_mut(part);
        level.compute(
            #[inline(always)]
            |arithmetic| {
                for (matrix, left) in matrix.chunks(ROWS * columns).zip(left.chunks(ROWS * count)) {
                    recent.fill(0.0);
                    for (row, factors) in matrix.chunks(columns).zip(left.chunks(count)) {
                        add_row(arithmetic, &row[start..start + width], factors, recent);
                    }
                    for (sum, recent) in sums.iter_mut().zip(&*recent) {
                        *sum += recent;
                    }
                }
            },
        );
    });
    for (k, out) in out.chunks_mut(columns).enumerate() {
        for (out, block) in out.chunks_mut(BLOCK).zip(blocks.chunks(2 * part)) {
            out.copy_from_slice(&block[k * BLOCK..][..out.len()]);
        }
    }
}

/// `sums[k] += factors[k] · row` for every k; a sum has [`BLOCK`] places.
#[inline(always)]
fn add_row<E: Element>(arithmetic: Arithmetic, row: &[E], factors: &[f32], sums: &mut [f32]) {
    let mut wide = [0f32; BLOCK];
    let wide = &mut wide[..row.len()];
    for (wide, value) in wide.iter_mut().zip(row) {
        *wide = value.widen();
    }
    for (factor, sum) in factors.iter().zip(sums.chunks_mut(BLOCK)) {
        for (sum, value) in sum.iter_mut().zip(&*wide) {
            *sum = arithmetic.mul_add(*factor, *value, *sum);
        }
    }
}

/// `matrix = decay · matrix - scale · left [rows, count] · right [count, columns]`, rounded once.
pub fn move_by<E: Element>(matrix: &mut [E], columns: usize, decay: f32, scale: f32, (left, right): (&[f32], &[f32])) {
    let count = right.len() / columns;
    assert!(right.len() == count * columns && left.len() * columns == matrix.len() * count);
    let rows = rows_per_part(columns);
    let level = InstructionSet::current();
    let parts = matrix.par_chunks_mut(rows * columns).zip(left.par_chunks(rows * count));
    parts.for_each(|(matrix, left)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                for (row, factors) in matrix.chunks_mut(columns).zip(left.chunks(count)) {
                    for (index, block) in row.chunks_mut(BLOCK).enumerate() {
                        move_block(arithmetic, block, index * BLOCK, columns, decay, scale, factors, right);
                    }
                }
            },
        );
    });
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the body of a loop")]
fn move_block<E: Element>(
    arithmetic: Arithmetic,
    block: &mut [E],
    start: usize,
    columns: usize,
    decay: f32,
    scale: f32,
    factors: &[f32],
    right: &[f32],
) {
    let mut sums = [0f32; BLOCK];
    let sums = &mut sums[..block.len()];
    for (factor, right) in factors.iter().zip(right.chunks(columns)) {
        for (sum, right) in sums.iter_mut().zip(&right[start..]) {
            *sum = arithmetic.mul_add(*factor, *right, *sum);
        }
    }
    for (value, sum) in block.iter_mut().zip(&*sums) {
        *value = E::narrow(value.widen() * decay - sum * scale);
    }
}

/// `gram += matrixᵀ · matrix`, `[columns, columns]`.
pub fn gram_of_columns<E: Element>(matrix: &[E], columns: usize, gram: &mut [f64]) {
    let level = InstructionSet::current();
    gram.par_chunks_mut(GRAM_ROWS * columns)
        .enumerate()
        .for_each(|(index, part)| {
            level.run(
                #[inline(always)]
                || {
                    for rows in matrix.chunks(4 * columns) {
                        gram_add(rows, columns, index * GRAM_ROWS, part);
                    }
                },
            );
        });
    mirror(gram, columns);
}

/// Adds what up to four rows of the matrix give to rows `first..` of its columns' Gram matrix, from the diagonal on.
#[inline(always)]
fn gram_add<E: Element>(rows: &[E], columns: usize, first: usize, part: &mut [f64]) {
    for (i, out) in part.chunks_mut(columns).enumerate() {
        let i = first + i;
        let out = &mut out[i..];
        if rows.len() == 4 * columns {
            let row = |n: usize| &rows[n * columns + i..(n + 1) * columns];
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let [x, y, z, w] = [a[0], b[0], c[0], d[0]].map(|value| f64::from(value.widen()));
            for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                let [a, b, c, d] = [*a, *b, *c, *d].map(|value| f64::from(value.widen()));
                *out += (x * a + y * b) + (z * c + w * d);
            }
        } else {
            for row in rows.chunks(columns) {
                let x = f64::from(row[i].widen());
                for (out, value) in out.iter_mut().zip(&row[i..]) {
                    *out += x * f64::from(value.widen());
                }
            }
        }
    }
}

/// `gram = matrix · matrixᵀ`, `[rows, rows]`.
pub fn gram_of_rows<E: Element>(matrix: &[E], columns: usize, gram: &mut [f64]) {
    let rows = matrix.len() / columns;
    let at_a_time = (PART / (rows * columns).max(1)).clamp(1, rows.max(1));
    let level = InstructionSet::current();
    gram.par_chunks_mut(at_a_time * rows)
        .enumerate()
        .for_each(|(index, part)| {
            level.run(
                #[inline(always)]
                || {
                    for (i, out) in part.chunks_mut(rows).enumerate() {
                        let i = index * at_a_time + i;
                        let row = &matrix[i * columns..(i + 1) * columns];
                        for (out, other) in out[i..].iter_mut().zip(matrix[i * columns..].chunks(columns)) {
                            *out = reduce::dot_wide(row, other, |value| f64::from(value.widen()));
                        }
                    }
                },
            );
        });
    mirror(gram, rows);
}

/// Copies what is above the diagonal below it.
fn mirror(square: &mut [f64], side: usize) {
    for i in 0..side {
        for j in 0..i {
            square[i * side + j] = square[j * side + i];
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

    /// Around the blocks' sizes, and past the rows after which sums are put aside.
    const SHAPES: [(usize, usize, usize); 6] = [
        (1, 1, 1),
        (3, 5, 2),
        (17, 128, 4),
        (40, 131, 9),
        (1100, 7, 3),
        (600, 129, 4),
    ];

    fn wide<E: Element>(values: &[E]) -> Vec<f64> {
        values.iter().map(|value| f64::from(value.widen())).collect()
    }

    /// `a [n, depth] · b [depth, m]`, in double precision.
    fn product(a: impl Fn(usize, usize) -> f64, b: impl Fn(usize, usize) -> f64, size: [usize; 3]) -> Vec<f64> {
        let [n, depth, m] = size;
        let element = |i: usize, j: usize| (0..depth).map(|k| a(i, k) * b(k, j)).sum();
        (0..n * m).map(|index| element(index / m, index % m)).collect()
    }

    fn check<E: Element>(rounding: f64) {
        at_each_level(|level| {
            for (rows, columns, count) in SHAPES {
                let what = format!("{level:?}, {rows} × {columns}, {count}");
                let matrix = narrowed::<E>(&values(rows * columns, 1));
                let (left, right) = (values(rows * count, 2), values(count * columns, 3));
                let (g, l, r) = (wide(&matrix), wide(&left), wide(&right));
                let g = |i: usize, j: usize| g[i * columns + j];

                let want = product(g, |j, k| r[k * columns + j], [rows, columns, count]);
                let scale = 16.0 * columns as f64;
                let mut got = vec![f32::NAN; rows * count];
                times(&matrix, columns, &right, count, &mut got);
                assert_close(got, &want, 1e-7 * scale, &what);

                let want = product(|k, i| l[i * count + k], g, [count, rows, columns]);
                let scale = 16.0 * rows as f64;
                let (mut blocks, mut got) = (vec![0.0; sums(columns, count)], vec![f32::NAN; count * columns]);
                transposed_times(&matrix, columns, &left, count, &mut blocks, &mut got);
                assert_close(got, &want, 1e-7 * scale, &what);

                let moved = product(
                    |i, k| l[i * count + k],
                    |k, j| r[k * columns + j],
                    [rows, count, columns],
                );
                let want: Vec<f64> = moved
                    .iter()
                    .enumerate()
                    .map(|(at, moved)| 0.5 * g(at / columns, at % columns) - 0.25 * moved)
                    .collect();
                let mut got = matrix.clone();
                move_by(&mut got, columns, 0.5, 0.25, (&left, &right));
                assert_close(got.iter().map(|value| value.widen()), &want, rounding, &what);

                let (mut of_columns, mut of_rows) = (vec![0.0; columns * columns], vec![f64::NAN; rows * rows]);
                gram_of_columns(&matrix, columns, &mut of_columns);
                gram_of_rows(&matrix, columns, &mut of_rows);
                for (got, want) in [
                    (of_columns, product(|j, i| g(i, j), g, [columns, rows, columns])),
                    (of_rows, product(g, |j, i| g(i, j), [rows, columns, rows])),
                ] {
                    assert_eq!(got.len(), want.len());
                    for (got, want) in got.iter().zip(&want) {
                        assert!(
                            (got - want).abs() <= 1e-12 * want.abs().max(1e3),
                            "{what}: {got} against {want}"
                        );
                    }
                }
            }
        });
    }

    #[test]
    fn products_agree_with_double_precision() {
        check::<f32>(1e-5);
        check::<bf16>(1.0 / 128.0);
    }
}
