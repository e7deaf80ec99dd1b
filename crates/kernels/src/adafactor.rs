//! Adafactor's step (Shazeer & Stern 2018, arXiv:1804.04235, algorithms 4 and 5) without a first moment, as
//! transformers computes it. The gradient is read again in each pass, so nothing of its size is held.

use rayon::prelude::*;

use super::{
    Element, InstructionSet,
    reduce::{squares, sum_over},
    rows::{PART, rows_per_part},
};
use crate::Dispatch as _;

/// Added to each squared gradient.
pub const EPSILON: f32 = 1e-30;

/// Columns that a thread sums at a time.
const STRIP: usize = 128;

/// The numbers that all elements of a step share.
#[derive(Debug, Clone, Copy)]
pub struct Coefficients {
    /// Decay of the second moment.
    pub beta2: f32,
    /// `1 - learning_rate · weight_decay`.
    pub decay: f32,
    /// The learning rate.
    pub rate: f32,
}

impl Coefficients {
    /// The moment after a step with this mean of squares.
    fn average(self, moment: f32, mean: f32) -> f32 {
        moment * self.beta2 + (mean + EPSILON) * (1.0 - self.beta2)
    }

    /// The factor on an update whose squares sum up to `squares`: its root mean square is at most 1.
    fn scale(self, squares: f64, count: usize) -> f32 {
        let root_mean_square = (squares / count as f64).sqrt() as f32;
        self.rate / root_mean_square.max(1.0)
    }
}

/// One step of a matrix. The state is the mean squares of its rows and of its columns.
pub fn step_matrix<E: Element>(
    values: &mut [E],
    gradients: &[E],
    row_means: &mut [f32],
    column_means: &mut [f32],
    c: Coefficients,
) {
    let (rows, columns) = (row_means.len(), column_means.len());
    assert!(values.len() == gradients.len() && values.len() == rows * columns);
    if values.is_empty() {
        return;
    }
    let level = InstructionSet::current();
    let part_rows = rows_per_part(columns);
    let parts = || gradients.par_chunks(part_rows * columns);
    row_means
        .par_chunks_mut(part_rows)
        .zip(parts())
        .for_each(|(means, gradients)| {
            level.run(
                #[inline(always)]
                || {
                    for (mean, row) in means.iter_mut().zip(gradients.chunks_exact(columns)) {
                        let sum = sum_over(row, |gradient| gradient.widen() * gradient.widen());
                        *mean = c.average(*mean, sum / columns as f32);
                    }
                },
            );
        });
    column_means.par_chunks_mut(STRIP).enumerate().for_each(|(at, means)| {
        level.run(
            #[inline(always)]
            || average_columns(means, gradients, at * STRIP, columns, c),
        );
    });
    let mean = row_means.iter().map(|mean| f64::from(*mean)).sum::<f64>() / rows as f64;
    let (row_means, column_means) = (&*row_means, &*column_means);
    let row_factor = |row: usize| 1.0 / (row_means[row] / mean as f32).sqrt();
    let sums: Vec<f64> = parts()
        .enumerate()
        .map(|(at, gradients)| {
            level.run(
                #[inline(always)]
                || {
                    let rows = gradients.chunks_exact(columns).enumerate();
                    let of_row = |(row, gradients): (usize, &[E])| {
                        let factor = f64::from(row_factor(at * part_rows + row));
                        factor * factor * update_squares(gradients, column_means)
                    };
                    rows.map(of_row).sum()
                },
            )
        })
        .collect();
    let scale = c.scale(sums.iter().sum(), values.len());
    values
        .par_chunks_mut(part_rows * columns)
        .zip(parts())
        .enumerate()
        .for_each(|(at, (values, gradients))| {
            level.run(
                #[inline(always)]
                || {
                    let rows = values.chunks_exact_mut(columns).zip(gradients.chunks_exact(columns));
                    for (row, (values, gradients)) in rows.enumerate() {
                        let factor = scale * row_factor(at * part_rows + row);
                        move_row(values, gradients, column_means, factor, c.decay);
                    }
                },
            );
        });
}

/// Updates the means of columns from `first` on.
#[inline(always)]
fn average_columns<E: Element>(means: &mut [f32], gradients: &[E], first: usize, columns: usize, c: Coefficients) {
    let mut sums = [0f64; STRIP];
    let sums = &mut sums[..means.len()];
    for row in gradients.chunks_exact(columns) {
        for (sum, gradient) in sums.iter_mut().zip(&row[first..][..means.len()]) {
            let gradient = f64::from(gradient.widen());
            *sum += gradient * gradient;
        }
    }
    let rows = (gradients.len() / columns) as f64;
    for (mean, sum) in means.iter_mut().zip(sums) {
        *mean = c.average(*mean, (*sum / rows) as f32);
    }
}

/// The sum of the squares of a row's update, without the row's factor.
#[inline(always)]
fn update_squares<E: Element>(gradients: &[E], column_means: &[f32]) -> f64 {
    let mut updates = [0f32; STRIP];
    let mut sum = 0.0;
    for (gradients, means) in gradients.chunks(STRIP).zip(column_means.chunks(STRIP)) {
        let updates = &mut updates[..gradients.len()];
        for ((update, gradient), mean) in updates.iter_mut().zip(gradients).zip(means) {
            *update = gradient.widen() / mean.sqrt();
        }
        sum += squares(updates);
    }
    sum
}

#[inline(always)]
fn move_row<E: Element>(values: &mut [E], gradients: &[E], column_means: &[f32], factor: f32, decay: f32) {
    for ((value, gradient), mean) in values.iter_mut().zip(gradients).zip(column_means) {
        *value = E::narrow(value.widen() * decay - gradient.widen() / mean.sqrt() * factor);
    }
}

/// One step of a vector. The state is the mean square of each element.
pub fn step_vector<E: Element>(values: &mut [E], gradients: &[E], means: &mut [f32], c: Coefficients) {
    assert!(values.len() == gradients.len() && values.len() == means.len());
    let level = InstructionSet::current();
    let sums: Vec<f64> = means
        .par_chunks_mut(PART)
        .zip(gradients.par_chunks(PART))
        .map(|(means, gradients)| {
            level.run(
                #[inline(always)]
                || {
                    for (mean, gradient) in means.iter_mut().zip(gradients) {
                        *mean = c.average(*mean, gradient.widen() * gradient.widen());
                    }
                    update_squares(gradients, means)
                },
            )
        })
        .collect();
    let scale = c.scale(sums.iter().sum(), values.len().max(1));
    let parts = values.par_chunks_mut(PART).zip(gradients.par_chunks(PART));
    parts
        .zip(means.par_chunks(PART))
        .for_each(|((values, gradients), means)| {
            level.run(
                #[inline(always)]
                || move_row(values, gradients, means, scale, c.decay),
            );
        });
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, assert_close, narrowed, values},
    };

    const COEFFICIENTS: Coefficients = Coefficients {
        beta2: 0.7,
        decay: 0.98,
        rate: 0.1,
    };
    /// Narrow, wide, past a strip of columns, and past a part of rows.
    const SHAPES: [(usize, usize); 7] = [(1, 1), (1, 300), (300, 1), (7, 129), (65, 16), (1100, 17), (3, 16_400)];

    fn wide<E: Element>(values: &[E]) -> Vec<f64> {
        values.iter().map(|value| f64::from(value.widen())).collect()
    }

    fn average(moment: f64, mean: f64) -> f64 {
        let beta2 = f64::from(COEFFICIENTS.beta2);
        moment * beta2 + (mean + f64::from(EPSILON)) * (1.0 - beta2)
    }

    /// The values after a step whose update, before it is clipped, is given.
    fn moved(values: &[f64], update: &[f64]) -> Vec<f64> {
        let squares: f64 = update.iter().map(|update| update * update).sum();
        let clip = (squares / update.len() as f64).sqrt().max(1.0);
        let [decay, rate] = [COEFFICIENTS.decay, COEFFICIENTS.rate].map(f64::from);
        let pairs = values.iter().zip(update);
        pairs
            .map(|(value, update)| value * decay - update / clip * rate)
            .collect()
    }

    /// transformers' arithmetic on a matrix, in double precision: values, and the means of rows and columns.
    fn matrix_plain(values: &[f64], gradients: &[f64], rows: &[f64], columns: &[f64]) -> [Vec<f64>; 3] {
        let (height, width) = (rows.len(), columns.len());
        let square = |row: usize, column: usize| gradients[row * width + column].powi(2);
        let of_row = |row| (0..width).map(|column| square(row, column)).sum::<f64>() / width as f64;
        let of_column = |column| (0..height).map(|row| square(row, column)).sum::<f64>() / height as f64;
        let rows: Vec<f64> = (0..height).map(|row| average(rows[row], of_row(row))).collect();
        let columns: Vec<f64> = (0..width)
            .map(|column| average(columns[column], of_column(column)))
            .collect();
        let mean = rows.iter().sum::<f64>() / height as f64;
        let update: Vec<f64> = (0..gradients.len())
            .map(|at| gradients[at] / (rows[at / width] / mean * columns[at % width]).sqrt())
            .collect();
        [moved(values, &update), rows, columns]
    }

    fn check<E: Element>(tolerance: f64) {
        at_each_level(|level| {
            for (rows, columns) in SHAPES {
                let what = format!("{level:?}, {rows} x {columns}");
                let count = rows * columns;
                let (mut value, gradient) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                let [mut of_rows, mut of_columns] = [vec![0.5; rows], vec![0.25; columns]];
                let [want, want_rows, want_columns] =
                    matrix_plain(&wide(&value), &wide(&gradient), &wide(&of_rows), &wide(&of_columns));
                step_matrix(&mut value, &gradient, &mut of_rows, &mut of_columns, COEFFICIENTS);
                assert_close(value.iter().map(|value| value.widen()), &want, tolerance, &what);
                assert_close(of_rows, &want_rows, 1e-5, &what);
                assert_close(of_columns, &want_columns, 1e-5, &what);
            }
            for count in COUNTS {
                let what = format!("{level:?}, {count}");
                let (mut value, gradient) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                let mut means = vec![0.5; count];
                let want_means: Vec<f64> = wide(&gradient).iter().map(|g| average(0.5, g * g)).collect();
                let pairs = wide(&gradient).into_iter().zip(&want_means);
                let update: Vec<f64> = pairs.map(|(gradient, mean)| gradient / mean.sqrt()).collect();
                let want = moved(&wide(&value), &update);
                step_vector(&mut value, &gradient, &mut means, COEFFICIENTS);
                assert_close(value.iter().map(|value| value.widen()), &want, tolerance, &what);
                assert_close(means, &want_means, 1e-6, &what);
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(1e-5);
        check::<f16>(1.0 / 2048.0);
        check::<bf16>(1.0 / 256.0);
    }

    #[test]
    fn a_gradient_of_zeros_moves_nothing() {
        let mut value = values(12, 1);
        let before = value.clone();
        let c = Coefficients {
            beta2: 0.0,
            decay: 1.0,
            rate: 0.1,
        };
        step_matrix(&mut value, &[0.0; 12], &mut [0.0; 3], &mut [0.0; 4], c);
        assert_eq!(value, before);
        step_vector(&mut value, &[0.0; 12], &mut [0.0; 12], c);
        assert_eq!(value, before);
    }
}
