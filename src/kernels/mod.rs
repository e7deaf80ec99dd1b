//! CPU kernels on slices and shapes: they know neither tensors nor models. Inputs and outputs are in the hidden format
//! (float32, float16 or bfloat16), arithmetic is float32. Rows are shared out over rayon's threads at fixed places and
//! each is computed in one order, so a result depends on nothing but its inputs. The plain candle ops beside each layer
//! in `nn/` are their reference.

pub mod adamw;
pub mod arithmetic;
pub mod attention;
pub mod buffer;
pub mod columns;
pub mod convert;
pub mod dropout;
pub mod eigen;
pub mod embedding;
mod exp;
pub mod gelu;
pub mod gemm;
pub mod head;
mod instruction_set;
pub mod layer_norm;
pub mod low_rank;
pub mod nf4;
pub mod norm;
mod reduce;
pub mod rope;
pub mod swiglu;
#[cfg(test)]
mod testing;

pub use crate::options::InstructionSet;
pub use convert::Element;

use arithmetic::Arithmetic;
use rayon::prelude::*;

/// Multiplies each element by `factor`.
pub fn scale<E: Element>(values: &mut [E], factor: f32) {
    for_rows(
        values,
        1,
        #[inline(always)]
        |_, part| scale_part(part, factor),
    );
}

/// A function of its own, so that it is given a copy of the factor: what is behind a reference might change with the
/// values, for all that the compiler knows.
#[inline(always)]
fn scale_part<E: Element>(values: &mut [E], factor: f32) {
    for value in values {
        *value = E::narrow(value.widen() * factor);
    }
}

/// The sum of the squares, in float64, of parts that are cut at fixed places.
pub fn sum_of_squares<E: Element>(values: &[E]) -> f64 {
    let level = InstructionSet::current();
    let sums: Vec<f64> = values
        .par_chunks(PART)
        .map(|part| {
            level.run(
                #[inline(always)]
                || reduce::squares(part),
            )
        })
        .collect();
    sums.iter().sum()
}

/// Elements that are worth handing to another thread.
const PART: usize = 16 * 1024;

/// How many rows of `cols` elements make a part.
fn rows_per_part(cols: usize) -> usize {
    (PART / cols.max(1)).max(1)
}

/// Calls `compute(first element, part)` for parts of `out`, each a whole number of rows, as code for the instruction set
/// in use: `compute` is to be `#[inline(always)]`, as [`InstructionSet::run`] says.
fn for_rows<T: Send>(out: &mut [T], cols: usize, compute: impl Fn(usize, &mut [T]) + Sync) {
    for_rows_by(
        out,
        cols,
        #[inline(always)]
        |_, start, part| compute(start, part),
    );
}

/// [`for_rows`], where `compute` is told how to multiply and add.
fn for_rows_by<T: Send>(out: &mut [T], cols: usize, compute: impl Fn(Arithmetic, usize, &mut [T]) + Sync) {
    let part = rows_per_part(cols) * cols.max(1);
    let level = InstructionSet::current();
    out.par_chunks_mut(part).enumerate().for_each(|(index, chunk)| {
        level.compute(
            #[inline(always)]
            |arithmetic| compute(arithmetic, index * part, chunk),
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use instruction_set::forced::at_each_level;
    use testing::{COUNTS, narrowed, values};

    #[test]
    fn squares_leave_nothing_out() {
        fn check<E: Element>() {
            for count in COUNTS {
                let values = narrowed::<E>(&values(count, 1));
                let want: f64 = values.iter().map(|value| f64::from(value.widen()).powi(2)).sum();
                assert!((sum_of_squares(&values) - want).abs() <= 1e-12 * want, "{count}");
            }
        }
        at_each_level(|_| {
            check::<f32>();
            check::<half::bf16>();
            assert!(sum_of_squares(&[1.0, f32::NAN]).is_nan());
            assert_eq!(sum_of_squares(&[1.0, f32::INFINITY]), f64::INFINITY);
        });
    }

    #[test]
    fn elements_are_scaled() {
        at_each_level(|_| {
            for count in COUNTS {
                let before = values(count, 1);
                let mut after = narrowed::<half::bf16>(&before);
                scale(&mut after, 0.5);
                let want: Vec<f32> = before.iter().map(|value| value * 0.5).collect();
                assert_eq!(after, narrowed::<half::bf16>(&want));
            }
        });
    }
}
