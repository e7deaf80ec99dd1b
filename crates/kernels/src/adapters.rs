//! Adapters whose second factor is made of fewer numbers: its rows, and the numbers' gradients from that of the factor.

use rayon::prelude::*;

use super::{
    InstructionSet, columns,
    reduce::{LANES, total},
};
use crate::Dispatch as _;

/// Writes a row whose elements are multiplied by its factor and by those of the columns.
pub fn scale(row: &mut [f32], of_row: f32, of_columns: &[f32]) {
    InstructionSet::current().run(
        #[inline(always)]
        || {
            for (value, of_column) in row.iter_mut().zip(of_columns) {
                *value = *value * of_row * of_column;
            }
        },
    );
}

/// Adds up the columns of a matrix that are `period` apart: `out` has `period` columns.
pub fn fold_columns(matrix: &[f32], columns: usize, period: usize, out: &mut [f32]) {
    let rows = matrix.par_chunks(columns).zip(out.par_chunks_mut(period));
    rows.for_each(|(row, out)| {
        out.fill(0.0);
        for part in row.chunks(period) {
            for (sum, value) in out.iter_mut().zip(part) {
                *sum += value;
            }
        }
    });
}

/// A matrix, the factors of its rows, and those of its columns.
type Scaled<'a> = (&'a [f32], &'a [f32], &'a [f32]);

/// The gradients of the rows' factors, given that of the scaled matrix.
pub fn row_factor_gradients(gradient: &[f32], (matrix, _, of_columns): Scaled<'_>, out: &mut [f32]) {
    let columns = of_columns.len();
    let level = InstructionSet::current();
    let rows = gradient.par_chunks(columns).zip(matrix.par_chunks(columns));
    rows.zip(out).for_each(|((gradient, row), out)| {
        *out = level.run(
            #[inline(always)]
            || {
                let mut lanes = [0.0; LANES];
                let blocks = gradient.chunks(LANES).zip(row.chunks(LANES));
                for ((gradient, row), factors) in blocks.zip(of_columns.chunks(LANES)) {
                    for (((lane, gradient), value), factor) in lanes.iter_mut().zip(gradient).zip(row).zip(factors) {
                        *lane += gradient * value * factor;
                    }
                }
                total(lanes)
            },
        );
    });
}

/// The gradients of the columns' factors, given that of the scaled matrix.
pub fn column_factor_gradients(gradient: &[f32], (matrix, of_rows, _): Scaled<'_>, out: &mut [f32]) {
    let (rows, columns) = (of_rows.len(), out.len());
    let mut scratch = vec![0f32; columns::scratch_len(rows, columns)];
    columns::sum_rows(
        rows,
        &mut scratch,
        out,
        #[inline(always)]
        |row, sums| {
            let at = row * columns..(row + 1) * columns;
            let terms = gradient[at.clone()].iter().zip(&matrix[at]);
            for (sum, (gradient, value)) in sums.iter_mut().zip(terms) {
                *sum += gradient * value * of_rows[row];
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, values};

    #[test]
    fn gradients_are_those_of_double_precision() {
        let (rows, columns, period) = (37, 12, 4);
        let (matrix, gradient) = (values(rows * columns, 1), values(rows * columns, 2));
        let (of_rows, of_columns) = (values(rows, 3), values(columns, 4));
        let product = |at: usize| f64::from(matrix[at]) * f64::from(gradient[at]);
        let scaled = (&matrix[..], &of_rows[..], &of_columns[..]);

        let mut out = vec![f32::NAN; rows];
        row_factor_gradients(&gradient, scaled, &mut out);
        let want = |row: usize| {
            let terms = (0..columns).map(|col| product(row * columns + col) * f64::from(of_columns[col]));
            terms.sum::<f64>()
        };
        assert_close(out, &(0..rows).map(want).collect::<Vec<_>>(), 1e-5, "rows");

        let mut out = vec![f32::NAN; columns];
        column_factor_gradients(&gradient, scaled, &mut out);
        let want = |col: usize| {
            let terms = (0..rows).map(|row| product(row * columns + col) * f64::from(of_rows[row]));
            terms.sum::<f64>()
        };
        assert_close(out, &(0..columns).map(want).collect::<Vec<_>>(), 1e-5, "columns");

        let mut out = vec![f32::NAN; rows * period];
        fold_columns(&matrix, columns, period, &mut out);
        let want = |at: usize| {
            let starts = (0..columns).step_by(period);
            let terms = starts.map(|start| f64::from(matrix[at / period * columns + start + at % period]));
            terms.sum::<f64>()
        };
        assert_close(out, &(0..rows * period).map(want).collect::<Vec<_>>(), 1e-5, "folded");
    }
}
