//! LayerNorm over rows.

use super::{
    Element,
    columns::sum_rows,
    reduce::{LANES, sum_over, total},
    rows::for_rows,
};

/// `out = (x - mean) / sqrt(variance + eps) · w + b` for each row of `w.len()` elements.
pub fn forward<E: Element>(x: &[E], weight: &[f32], bias: &[f32], eps: f32, out: &mut [E]) {
    let cols = weight.len();
    assert!(x.len() == out.len() && bias.len() == cols && x.len().is_multiple_of(cols));
    for_rows(
        out,
        cols,
        #[inline(always)]
        |start, part| {
            for (x, out) in x[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols)) {
                let (mean, inverse) = moments(x, eps);
                for (((out, x), weight), bias) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                    *out = E::narrow((x.widen() - mean) * inverse * weight + bias);
                }
            }
        },
    );
}

/// Turns the output's gradient into the input's: with `n = (x - mean) / deviation` and `g = dy · w`, it is
/// `(g - mean(g) - n · mean(g · n)) / deviation`.
pub fn backward_in_place<E: Element>(x: &[E], weight: &[f32], eps: f32, dy: &mut [f32]) {
    let cols = weight.len();
    assert!(x.len() == dy.len() && x.len().is_multiple_of(cols));
    for_rows(
        dy,
        cols,
        #[inline(always)]
        |start, part| {
            for (x, dy) in x[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols)) {
                let (mean, inverse) = moments(x, eps);
                let (sum, along) = products(x, dy, weight, mean);
                let (shift, slope) = (sum / cols as f32, along * inverse * inverse / cols as f32);
                for ((dy, x), weight) in dy.iter_mut().zip(x).zip(weight) {
                    *dy = inverse * (*dy * weight - shift - (x.widen() - mean) * slope);
                }
            }
        },
    );
}

/// Writes the gradients of weight and bias, one after the other, to `out`: the sums over the rows of `dy · n` and `dy`.
/// `scratch` is that of [`scratch_len`](super::columns::scratch_len) for sums of two elements a column.
pub fn parameter_gradients<E: Element>(x: &[E], dy: &[f32], eps: f32, scratch: &mut [f32], out: &mut [f32]) {
    let cols = out.len() / 2;
    assert!(x.len() == dy.len() && x.len().is_multiple_of(cols) && out.len() == 2 * cols);
    sum_rows(
        x.len() / cols,
        scratch,
        out,
        #[inline(always)]
        |row, sums| {
            let (x, dy) = (&x[row * cols..][..cols], &dy[row * cols..][..cols]);
            let (mean, inverse) = moments(x, eps);
            let (weights, biases) = sums.split_at_mut(cols);
            for (((weight, bias), x), dy) in weights.iter_mut().zip(biases).zip(x).zip(dy) {
                *weight += dy * ((x.widen() - mean) * inverse);
                *bias += dy;
            }
        },
    );
}

/// Mean and `1 / sqrt(variance + eps)` of a row.
#[inline(always)]
fn moments<E: Element>(x: &[E], eps: f32) -> (f32, f32) {
    let mean = sum_over(
        x,
        #[inline(always)]
        |x| x.widen(),
    ) / x.len() as f32;
    let squares = sum_over(
        x,
        #[inline(always)]
        |x| (x.widen() - mean) * (x.widen() - mean),
    );
    (mean, 1.0 / (squares / x.len() as f32 + eps).sqrt())
}

/// The sums of `dy · w` and of `dy · w · (x - mean)` over a row.
#[inline(always)]
fn products<E: Element>(x: &[E], dy: &[f32], weight: &[f32], mean: f32) -> (f32, f32) {
    let (mut sums, mut along) = ([0.0; LANES], [0.0; LANES]);
    for ((x, dy), weight) in x.chunks(LANES).zip(dy.chunks(LANES)).zip(weight.chunks(LANES)) {
        let lanes = sums.iter_mut().zip(&mut along);
        for ((sum, along), ((x, dy), weight)) in lanes.zip(x.iter().zip(dy).zip(weight)) {
            let gradient = dy * weight;
            *sum += gradient;
            *along += gradient * (x.widen() - mean);
        }
    }
    (total(sums), total(along))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        columns::scratch_len,
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    const EPS: f32 = 1e-5;

    /// A row's normalised values and the inverse of its deviation, in double precision.
    fn normalised<E: Element>(x: &[E]) -> (Vec<f64>, f64) {
        let x: Vec<f64> = x.iter().map(|x| f64::from(x.widen())).collect();
        let count = x.len() as f64;
        let mean = x.iter().sum::<f64>() / count;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let inverse = 1.0 / (variance + f64::from(EPS)).sqrt();
        (x.iter().map(|x| (x - mean) * inverse).collect(), inverse)
    }

    fn check<E: Element>(tolerance: f64) {
        at_each_level(|level| {
            for (rows, cols) in [(1, 2), (3, 15), (2, 31), (5, 33), (40, 768), (1, 20_001)] {
                let (x, weight, bias) = (narrowed::<E>(&values(rows * cols, 1)), values(cols, 2), values(cols, 3));
                let dy = values(rows * cols, 4);
                let what = format!("{level:?}, {rows} x {cols}");
                let (mut y, mut dx, mut sums) = (Vec::new(), Vec::new(), vec![0f64; 2 * cols]);
                for (x, dy) in x.chunks(cols).zip(dy.chunks(cols)) {
                    let (normed, inverse) = normalised(x);
                    let gradients: Vec<f64> = dy
                        .iter()
                        .zip(&weight)
                        .map(|(dy, weight)| f64::from(*dy) * f64::from(*weight))
                        .collect();
                    let mean = gradients.iter().sum::<f64>() / cols as f64;
                    let along = gradients.iter().zip(&normed).map(|(g, n)| g * n).sum::<f64>() / cols as f64;
                    for col in 0..cols {
                        y.push(normed[col] * f64::from(weight[col]) + f64::from(bias[col]));
                        dx.push((gradients[col] - mean - normed[col] * along) * inverse);
                        sums[col] += f64::from(dy[col]) * normed[col];
                        sums[cols + col] += f64::from(dy[col]);
                    }
                }
                let mut out = x.clone();
                forward(&x, &weight, &bias, EPS, &mut out);
                assert_close(out.iter().map(|out| out.widen()), &y, tolerance, &what);
                let mut scratch = vec![f32::NAN; scratch_len(rows, 2 * cols)];
                let mut gradients = vec![f32::NAN; 2 * cols];
                parameter_gradients(&x, &dy, EPS, &mut scratch, &mut gradients);
                assert_close(gradients, &sums, 1e-5, &what);
                let mut d = dy;
                backward_in_place(&x, &weight, EPS, &mut d);
                assert_close(d, &dx, 2e-5, &what);
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(2e-6);
        check::<f16>(1.0 / 2048.0);
        check::<bf16>(1.0 / 256.0);
    }

    #[test]
    fn what_is_not_a_number_stays_in_its_row() {
        at_each_level(|_| {
            let mut x = values(3 * 33, 1);
            x[40] = f32::NAN;
            let (weight, mut dy) = (values(33, 2), values(3 * 33, 3));
            let mut out = vec![0.0; 99];
            forward(&x, &weight, &weight, EPS, &mut out);
            backward_in_place(&x, &weight, EPS, &mut dy);
            for values in [out, dy] {
                assert!(values[..33].iter().chain(&values[66..]).all(|value| value.is_finite()));
                assert!(values[33..66].iter().all(|value| value.is_nan()));
            }
        });
    }
}
