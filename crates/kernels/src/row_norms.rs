//! Norms of a stored matrix's rows, read a piece at a time, so that a quantised matrix is never held in another format.

use rayon::prelude::*;

use super::{
    InstructionSet,
    gemm::{OperandReader, operand::Number},
    reduce::{LANES, total},
    rows::rows_per_part,
};
use crate::Dispatch as _;

/// Elements that are read at a time.
const PIECE: usize = 4 * LANES;

/// Writes the squared norm of each row of `matrix` to `out`: the float32 sum of its squares. The matrix has `out.len()`
/// rows and `cols` columns, and gives its elements in the format `P`.
pub fn squared<P: Number>(matrix: &dyn OperandReader<P>, cols: usize, out: &mut [f32]) {
    let (part, level) = (rows_per_part(cols), InstructionSet::current());
    out.par_chunks_mut(part).enumerate().for_each(|(at, norms)| {
        level.run(
            #[inline(always)]
            || {
                for (row, norm) in norms.iter_mut().enumerate() {
                    *norm = squared_norm(matrix, at * part + row, cols);
                }
            },
        );
    });
}

/// Writes the norm of each row of `W + s · B A` to `out`. `squared` has the squared norms of W's rows, `b` is
/// `B [rows, rank]`, and `inner` is `A Wᵀ + s/2 · (A Aᵀ) Bᵀ`, `[rank, rows]`.
///
/// A row of zeros gets a norm above zero, so that one can divide by it.
pub fn changed(squared: &[f32], b: &[f32], inner: &[f32], s: f32, out: &mut [f32]) {
    let rows = out.len();
    let rank = b.len().checked_div(rows).unwrap_or(0);
    assert!(squared.len() == rows && b.len() == inner.len() && b.len() == rank * rows);
    let part = rows_per_part(rank);
    out.par_chunks_mut(part).enumerate().for_each(|(at, norms)| {
        for (row, norm) in (at * part..).zip(norms) {
            let terms = b[row * rank..][..rank].iter().zip(inner.iter().skip(row).step_by(rows));
            let dot: f32 = terms.map(|(b, inner)| b * inner).sum();
            *norm = (squared[row] + 2.0 * s * dot).max(f32::MIN_POSITIVE).sqrt();
        }
    });
}

#[inline(always)]
fn squared_norm<P: Number>(matrix: &dyn OperandReader<P>, row: usize, cols: usize) -> f32 {
    let (mut buffer, mut lanes) = ([P::ZERO; PIECE], [0.0; LANES]);
    for start in (0..cols).step_by(PIECE) {
        let piece = start..cols.min(start + PIECE);
        let values = matrix.row(row, piece.clone(), &mut buffer[..piece.len()]);
        for block in values.chunks(LANES) {
            for (lane, value) in lanes.iter_mut().zip(block) {
                *lane += value.widen() * value.widen();
            }
        }
    }
    total(lanes)
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        gemm::Dense,
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    const SHAPES: [(usize, usize); 7] = [(0, 5), (1, 1), (3, 0), (31, 127), (65, 513), (2, 1536), (3, 20_001)];

    /// In double precision.
    fn plain(values: &[f32], rows: usize, cols: usize) -> Vec<f64> {
        let row = |row: usize| values[row * cols..][..cols].iter();
        (0..rows)
            .map(|at| row(at).map(|value| f64::from(*value).powi(2)).sum())
            .collect()
    }

    #[test]
    fn rows_of_either_format_agree_with_double_precision() {
        at_each_level(|level| {
            for (rows, cols) in SHAPES {
                let what = format!("{level:?}, {rows} x {cols}");
                // Rows lie further apart than they are long, as in a window of a matrix.
                let stride = cols + 3;
                let all = values(rows * stride, 1);
                let compact: Vec<f32> = all.chunks(stride).flat_map(|row| &row[..cols]).copied().collect();
                let mut out = vec![f32::NAN; rows];
                squared::<f32>(&Dense::new(&all, stride), cols, &mut out);
                assert_close(out.iter().copied(), &plain(&compact, rows, cols), 1e-5, &what);

                let all = narrowed::<bf16>(&all);
                let compact: Vec<f32> = narrowed::<bf16>(&compact).iter().map(|value| value.to_f32()).collect();
                let want = plain(&compact, rows, cols);
                squared::<bf16>(&Dense::new(&all, stride), cols, &mut out);
                assert_close(out.iter().copied(), &want, 1e-5, &what);
                // Converted as it is read.
                squared::<f32>(&Dense::new(&all, stride), cols, &mut out);
                assert_close(out.iter().copied(), &want, 1e-5, &what);
            }
        });
    }

    #[test]
    fn norms_of_changed_rows_agree_with_double_precision() {
        for (rows, cols, rank) in [(1, 1, 1), (33, 17, 3), (130, 65, 40), (5, 7, 0)] {
            let (w, a, b) = (values(rows * cols, 1), values(rank * cols, 2), values(rows * rank, 3));
            let s = 0.7;
            let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
            let (row_w, row_a) = (|at: usize| &w[at * cols..][..cols], |at: usize| &a[at * cols..][..cols]);
            let inner = |row: usize, at: usize| {
                let gram = |other| f64::from(b[row * rank + other]) * dot(row_a(other), row_a(at));
                dot(row_w(row), row_a(at)) + f64::from(s) / 2.0 * (0..rank).map(gram).sum::<f64>()
            };
            let inner: Vec<f32> = (0..rows * rank).map(|at| inner(at % rows, at / rows) as f32).collect();
            let squared: Vec<f32> = (0..rows).map(|row| dot(row_w(row), row_w(row)) as f32).collect();
            let changed_row = |row: usize| {
                let change = |col: usize| {
                    (0..rank)
                        .map(|at| f64::from(b[row * rank + at]) * f64::from(row_a(at)[col]))
                        .sum::<f64>()
                };
                let value = |col: usize| (f64::from(row_w(row)[col]) + f64::from(s) * change(col)).powi(2);
                (0..cols).map(value).sum::<f64>().sqrt()
            };
            let want: Vec<f64> = (0..rows).map(changed_row).collect();
            let mut out = vec![f32::NAN; rows];
            changed(&squared, &b, &inner, s, &mut out);
            assert_close(out, &want, 1e-4, &format!("{rows} x {cols}, rank {rank}"));
        }
    }

    #[test]
    fn one_can_divide_by_the_norm_of_zeros() {
        let mut out = [f32::NAN; 2];
        changed(&[0.0, 1e-30], &[0.0; 2], &[5.0, -5.0], 2.0, &mut out);
        assert!(
            out.iter().all(|norm| *norm > 0.0 && (1.0 / norm).is_finite()),
            "{out:?}"
        );
    }

    #[test]
    fn a_norm_does_not_depend_on_the_number_of_threads() {
        let x = values(100 * 777, 1);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut out = vec![f32::NAN; 100];
            pool.install(|| squared::<f32>(&Dense::new(&x, 777), 777, &mut out));
            out
        };
        assert_eq!(run(1), run(5));
    }
}
