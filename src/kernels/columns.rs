//! Sums over the rows of a matrix, in parts that are cut at fixed places and added up in order.

use rayon::prelude::*;

use super::{Element, InstructionSet};

/// The most parts that rows are cut into.
const PARTS: usize = 32;
/// The fewest rows of a part.
const ROWS: usize = 16;

/// The sum of each column of `x`, which has rows of `cols` elements.
pub fn sums<E: Element>(x: &[E], cols: usize) -> Vec<f32> {
    sum_rows(
        x.len() / cols,
        cols,
        #[inline(always)]
        |row, sums| {
            for (sum, x) in sums.iter_mut().zip(&x[row * cols..][..cols]) {
                *sum += x.widen();
            }
        },
    )
}

/// The parts that so many rows are cut into.
pub fn parts(rows: usize) -> usize {
    rows.div_ceil(rows_of_part(rows))
}

fn rows_of_part(rows: usize) -> usize {
    rows.div_ceil(PARTS).max(ROWS)
}

/// What `add(row, sums)` adds up over all rows, in `width` sums. `add` is to be `#[inline(always)]`.
pub fn sum_rows(rows: usize, width: usize, add: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let part = rows_of_part(rows);
    let mut sums = vec![0f32; width];
    if rows == 0 || width == 0 {
        return sums;
    }
    let mut parts = vec![0f32; parts(rows) * width];
    let level = InstructionSet::current();
    parts.par_chunks_mut(width).enumerate().for_each(|(at, sums)| {
        level.run(
            #[inline(always)]
            || {
                for row in at * part..rows.min((at + 1) * part) {
                    add(row, sums);
                }
            },
        );
    });
    for part in parts.chunks_exact(width) {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum += value;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::kernels::{
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    #[test]
    fn no_row_is_left_out() {
        at_each_level(|level| {
            for (rows, cols) in [(0, 3), (1, 1), (15, 33), (16, 2), (17, 65), (700, 31)] {
                let x = narrowed::<bf16>(&values(rows * cols, 1));
                let mut want = vec![0f64; cols];
                for row in x.chunks(cols) {
                    want.iter_mut()
                        .zip(row)
                        .for_each(|(sum, x)| *sum += f64::from(x.to_f32()));
                }
                assert_close(sums(&x, cols), &want, 1e-4, &format!("{level:?}, {rows} x {cols}"));
            }
        });
    }

    #[test]
    fn a_sum_does_not_depend_on_the_number_of_threads() {
        let x = values(1000 * 33, 1);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| sums(&x, 33))
        };
        assert_eq!(run(1), run(5));
    }
}
