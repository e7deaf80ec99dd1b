//! Norms of a stored matrix's rows, read a piece at a time, so that a quantised matrix is never held in another format.

use rayon::prelude::*;

use super::{
    InstructionSet,
    gemm::{Source, operand::Number},
    reduce::{LANES, total},
    rows::rows_per_part,
};

/// Elements that are read at a time.
const PIECE: usize = 4 * LANES;

/// Writes the squared norm of each row of `matrix` to `out`: the float32 sum of its squares. The matrix has `out.len()`
/// rows and `cols` columns, and gives its elements in the format `P`.
pub fn squared<P: Number>(matrix: &dyn Source<P>, cols: usize, out: &mut [f32]) {
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

#[inline(always)]
fn squared_norm<P: Number>(matrix: &dyn Source<P>, row: usize, cols: usize) -> f32 {
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
    use crate::kernels::{
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
