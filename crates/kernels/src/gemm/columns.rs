//! Matrices whose columns have a factor each: as a product's operand, and the gradient of the factors of its output.

use std::ops::Range;

use super::{
    block::{Block, TILE},
    epilogue::{Epilogue, Output},
    operand::{Number, OperandReader, prefetch},
};
use crate::Dispatch as _;
use crate::{Element, InstructionSet};

/// A matrix in a slice. Each column is multiplied by its factor as it is read.
pub struct ScaledColumns<'a, E> {
    values: &'a [E],
    factors: &'a [f32],
}

impl<'a, E> ScaledColumns<'a, E> {
    /// A matrix of rows as long as `factors`.
    pub fn new(values: &'a [E], factors: &'a [f32]) -> Self {
        Self { values, factors }
    }

    fn slice(&self, row: usize, cols: Range<usize>) -> &'a [E] {
        &self.values[row * self.factors.len()..][cols]
    }
}

impl<E: Element, P: Number> OperandReader<P> for ScaledColumns<'_, E> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        let (values, factors) = (self.slice(row, cols.clone()), &self.factors[cols]);
        InstructionSet::current().run(
            #[inline(always)]
            || {
                for ((out, value), factor) in buffer.iter_mut().zip(values).zip(factors) {
                    *out = P::narrow(value.widen() * factor);
                }
            },
        );
        buffer
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        prefetch(self.slice(row, cols));
    }
}

/// Dot products of the product's columns with those of another matrix. The product itself is not kept.
pub struct ColumnDots<'a, E> {
    /// The other matrix; its rows are as long as those of `out`.
    pub other: &'a [E],
    /// [`blocks`] rows, whose sum has the dot products.
    pub out: Output<'a, f32>,
}

/// The rows that [`ColumnDots`] writes for a product of so many rows.
pub fn blocks(rows: usize) -> usize {
    rows.div_ceil(TILE)
}

impl<E: Element> Epilogue for ColumnDots<'_, E> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        let mut sums = [0f32; TILE];
        InstructionSet::current().run(
            #[inline(always)]
            || {
                for (at, row) in rows.clone().enumerate() {
                    let other = &self.other[row * self.out.stride()..][cols.clone()];
                    for ((sum, value), other) in sums.iter_mut().zip(block.row(at)).zip(other) {
                        *sum += value * other.widen();
                    }
                }
            },
        );
        // SAFETY: a product's blocks begin at multiples of their edge, so each has a row here; and the caller's
        // promise.
        let out = unsafe { self.out.row(rows.start / TILE, cols.clone()) };
        out.copy_from_slice(&sums[..cols.len()]);
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        for row in rows {
            prefetch(&self.other[row * self.out.stride()..][cols.clone()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        gemm::{Dense, Operand, Segment, Term, epilogue::Replace, multiply::Multiply, product},
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    const SHAPES: [(usize, usize, usize); 6] = [
        (1, 1, 1),
        (33, 5, 31),
        (31, 64, 33),
        (300, 33, 47),
        (70, 96, 16),
        (2, 700, 65),
    ];

    fn one_product<P: Multiply>(rows: usize, cols: usize, term: Term<P>, epilogue: &dyn Epilogue) {
        product(
            rows,
            &[Segment {
                cols,
                terms: vec![term],
                epilogue,
            }],
        );
    }

    /// `E` is the stored format, `P` the one that is multiplied.
    fn columns_have_their_factors<E: Element, P: Multiply>() {
        for (rows, depth, cols) in SHAPES {
            let (x, w) = (narrowed::<E>(&values(rows * depth, 1)), values(cols * depth, 2));
            let (by_depth, by_row) = (values(depth, 3), values(rows, 4));
            let w = Dense::new(&w, depth);
            let mut out = vec![f32::NAN; rows * cols];
            let scaled = ScaledColumns::new(&x, &by_depth);
            let term = Term::<P> {
                left: Operand::depth_last(&scaled),
                right: Operand::depth_last(&w),
                depth,
            };
            let store = Replace {
                out: Output::new(&mut out, cols),
                scale: 1.0,
            };
            one_product(rows, cols, term, &store);
            let read = |value: f32| f64::from(P::narrow(value).widen());
            let weight = values(cols * depth, 2);
            let want = |row: usize, col: usize| {
                let product =
                    |at: usize| read(x[row * depth + at].widen() * by_depth[at]) * read(weight[col * depth + at]);
                (0..depth).map(product).sum::<f64>()
            };
            let want: Vec<f64> = (0..rows * cols).map(|at| want(at / cols, at % cols)).collect();
            assert_close(out, &want, 1e-4, &format!("left, {rows} x {depth} x {cols}"));

            // The matrix x by columns: it is `[depth, rows]`.
            let x = narrowed::<E>(&values(rows * depth, 1));
            let scaled = ScaledColumns::new(&x, &by_row);
            let term = Term::<P> {
                left: Operand::depth_first(&scaled),
                right: Operand::depth_last(&w),
                depth,
            };
            let mut out = vec![f32::NAN; rows * cols];
            let store = Replace {
                out: Output::new(&mut out, cols),
                scale: 1.0,
            };
            one_product(rows, cols, term, &store);
            let want = |row: usize, col: usize| {
                let product =
                    |at: usize| read(x[at * rows + row].widen() * by_row[row]) * read(weight[col * depth + at]);
                (0..depth).map(product).sum::<f64>()
            };
            let want: Vec<f64> = (0..rows * cols).map(|at| want(at / cols, at % cols)).collect();
            assert_close(out, &want, 1e-4, &format!("left by columns, {rows} x {depth} x {cols}"));
        }
    }

    fn dots_are_those_of_the_product<E: Element, P: Multiply>() {
        for (rows, depth, cols) in SHAPES {
            let (x, w) = (values(rows * depth, 1), values(cols * depth, 2));
            let other = narrowed::<E>(&values(rows * cols, 3));
            let (left, right) = (Dense::new(&x, depth), Dense::new(&w, depth));
            let mut out = vec![f32::NAN; blocks(rows) * cols];
            let store = ColumnDots {
                other: &other,
                out: Output::new(&mut out, cols),
            };
            let term = Term::<P> {
                left: Operand::depth_last(&left),
                right: Operand::depth_last(&right),
                depth,
            };
            one_product(rows, cols, term, &store);
            let read = |value: f32| f64::from(P::narrow(value).widen());
            let value = |row: usize, col: usize| {
                let product = |at: usize| read(x[row * depth + at]) * read(w[col * depth + at]);
                (0..depth).map(product).sum::<f64>() * f64::from(other[row * cols + col].widen())
            };
            let want: Vec<f64> = (0..cols)
                .map(|col| (0..rows).map(|row| value(row, col)).sum())
                .collect();
            let got = (0..cols).map(|col| out.iter().skip(col).step_by(cols).sum());
            assert_close(got, &want, 1e-4, &format!("{rows} x {depth} x {cols}"));
        }
    }

    #[test]
    fn factors_and_dots_agree_with_double_precision() {
        at_each_level(|_| {
            columns_have_their_factors::<f32, f32>();
            columns_have_their_factors::<bf16, f32>();
            columns_have_their_factors::<bf16, bf16>();
            dots_are_those_of_the_product::<f32, f32>();
            dots_are_those_of_the_product::<bf16, f32>();
            dots_are_those_of_the_product::<bf16, bf16>();
        });
    }
}
