//! RMSNorm over rows.

use rayon::prelude::*;

use super::{
    Element, InstructionSet,
    reduce::{LANES, sum_over, total},
    rows::for_rows,
};
use crate::Dispatch as _;

/// Columns that a thread takes at a time.
const COLUMNS: usize = 64;

/// `out = x / sqrt(mean(x²) + eps) · w` for each row of `w.len()` elements.
pub fn forward<E: Element, O: Element>(x: &[E], weight: &[f32], eps: f32, out: &mut [O]) {
    let cols = weight.len();
    assert!(x.len() == out.len() && x.len().is_multiple_of(cols));
    for_rows(
        out,
        cols,
        #[inline(always)]
        |start, part| {
            for (x, out) in x[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols)) {
                row_into(x, weight, inverse_rms(x, eps), out);
            }
        },
    );
}

/// [`forward`] added to `residual`, rounded once.
pub fn forward_onto<E: Element, R: Element>(x: &[E], weight: &[f32], eps: f32, residual: &[R], out: &mut [R]) {
    let cols = weight.len();
    assert!(x.len() == out.len() && residual.len() == out.len() && x.len().is_multiple_of(cols));
    for_rows(
        out,
        cols,
        #[inline(always)]
        |start, part| {
            let rows = x[start..].chunks_exact(cols).zip(residual[start..].chunks_exact(cols));
            for ((x, residual), out) in rows.zip(part.chunks_exact_mut(cols)) {
                let inverse = inverse_rms(x, eps);
                for (((out, x), residual), weight) in out.iter_mut().zip(x).zip(residual).zip(weight) {
                    *out = R::narrow(residual.widen() + x.widen() * inverse * weight);
                }
            }
        },
    );
}

/// Adds the input's gradient to `dx`: with `n = x / rms(x)` and `g = dy · w`, it is `(g - n · mean(g · n)) / rms(x)`.
pub fn backward<E: Element>(x: &[E], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) {
    gradients(
        x,
        weight,
        eps,
        dy,
        dx,
        #[inline(always)]
        |dx, gradient| *dx += gradient,
    );
}

/// The input's gradient as [`backward`] has it, in the memory of `dy`, rounded once.
pub fn backward_in_place<E: Element>(x: &[E], weight: &[f32], eps: f32, dy: &mut [E]) {
    let cols = weight.len();
    assert!(x.len() == dy.len() && x.len().is_multiple_of(cols));
    for_rows(
        dy,
        cols,
        #[inline(always)]
        |start, part| {
            for (x, dy) in x[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols)) {
                row_gradient(x, weight, eps, dy);
            }
        },
    );
}

/// The input's gradient as [`backward`] has it, written to `dx` and rounded once.
pub fn gradient<E: Element>(x: &[E], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [E]) {
    gradients(
        x,
        weight,
        eps,
        dy,
        dx,
        #[inline(always)]
        |dx, gradient| *dx = E::narrow(gradient),
    );
}

/// Gives each element of the input's gradient to `store`, with its place in `dx`.
fn gradients<E: Element, D: Send>(
    x: &[E],
    weight: &[f32],
    eps: f32,
    dy: &[f32],
    dx: &mut [D],
    store: impl Fn(&mut D, f32) + Sync,
) {
    let cols = weight.len();
    assert!(x.len() == dy.len() && x.len() == dx.len() && x.len().is_multiple_of(cols));
    for_rows(
        dx,
        cols,
        #[inline(always)]
        |start, part| {
            let rows = x[start..]
                .chunks_exact(cols)
                .zip(dy[start..].chunks_exact(cols))
                .zip(part.chunks_exact_mut(cols));
            for ((x, dy), dx) in rows {
                let (inverse, slope) = slopes(x, dy, weight, eps);
                for (((dx, x), dy), weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                    store(dx, inverse * (dy * weight - x.widen() * slope));
                }
            }
        },
    );
}

/// [`backward_in_place`] of a row; to be called in [`super::InstructionSet::run`].
#[inline(always)]
pub(super) fn row_gradient<E: Element>(x: &[E], weight: &[f32], eps: f32, dy: &mut [E]) {
    let (inverse, slope) = slopes(x, dy, weight, eps);
    for ((dy, x), weight) in dy.iter_mut().zip(x).zip(weight) {
        *dy = E::narrow(inverse * (dy.widen() * weight - x.widen() * slope));
    }
}

/// The gradient of the weight: the sum over the rows, in their order, of `dy · x / rms(x)`. `inverses` has an element
/// for each row, and whatever values.
pub fn weight_gradient<E: Element, D: Element>(x: &[E], dy: &[D], eps: f32, inverses: &mut [f32], out: &mut [f32]) {
    let cols = out.len();
    assert!(x.len() == inverses.len() * cols && dy.len() == x.len());
    let level = InstructionSet::current();
    inverses
        .par_iter_mut()
        .zip(x.par_chunks_exact(cols))
        .for_each(|(inverse, x)| {
            let squares: f32 = x.iter().map(|x| x.widen() * x.widen()).sum();
            *inverse = 1.0 / (squares * (1.0 / cols as f64) as f32 + eps).sqrt();
        });
    let inverses = &*inverses;
    out.par_chunks_mut(COLUMNS).enumerate().for_each(|(at, out)| {
        level.run(
            #[inline(always)]
            || {
                out.fill(0.0);
                let rows = x.chunks_exact(cols).zip(dy.chunks_exact(cols)).zip(inverses);
                for ((x, dy), inverse) in rows {
                    let (x, dy) = (&x[at * COLUMNS..], &dy[at * COLUMNS..]);
                    for ((sum, x), dy) in out.iter_mut().zip(x).zip(dy) {
                        *sum += dy.widen() * (x.widen() * inverse);
                    }
                }
            },
        );
    });
}

/// `1 / sqrt(mean(x²) + eps)` of a row; to be called in [`super::InstructionSet::run`].
#[inline(always)]
pub fn inverse_rms<E: Element>(x: &[E], eps: f32) -> f32 {
    let squares = sum_over(
        x,
        #[inline(always)]
        |x| x.widen() * x.widen(),
    );
    inverse_root(squares, x.len(), eps)
}

/// `out = x · inverse · w` of a row, rounded once; to be called in [`super::InstructionSet::run`].
#[inline(always)]
pub fn row_into<E: Element, O: Element>(x: &[E], weight: &[f32], inverse: f32, out: &mut [O]) {
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = O::narrow(x.widen() * inverse * weight);
    }
}

#[inline(always)]
fn inverse_root(squares: f32, count: usize, eps: f32) -> f32 {
    1.0 / (squares / count as f32 + eps).sqrt()
}

/// `1 / rms(x)` of a row, and what `x` is multiplied by in the gradient: `Σ x dy w / rms(x)² / n`.
#[inline(always)]
fn slopes<E: Element, D: Element>(x: &[E], dy: &[D], weight: &[f32], eps: f32) -> (f32, f32) {
    let (squares, along) = products(x, dy, weight);
    let inverse = inverse_root(squares, x.len(), eps);
    (inverse, along * inverse * inverse / x.len() as f32)
}

/// The sums of `x²` and of `x · dy · w` over a row.
#[inline(always)]
fn products<E: Element, D: Element>(x: &[E], dy: &[D], weight: &[f32]) -> (f32, f32) {
    let (mut squares, mut along) = ([0.0; LANES], [0.0; LANES]);
    for ((x, dy), weight) in x.chunks(LANES).zip(dy.chunks(LANES)).zip(weight.chunks(LANES)) {
        let lanes = squares.iter_mut().zip(&mut along);
        for ((squares, along), ((x, dy), weight)) in lanes.zip(x.iter().zip(dy).zip(weight)) {
            let x = x.widen();
            *squares += x * x;
            *along += x * dy.widen() * weight;
        }
    }
    (total(squares), total(along))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    const EPS: f32 = 1e-5;

    fn wide<E: Element>(values: &[E]) -> Vec<f64> {
        values.iter().map(|value| f64::from(value.widen())).collect()
    }

    fn inverse(x: &[f64]) -> f64 {
        1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + f64::from(EPS)).sqrt()
    }

    /// In double precision.
    fn forward_plain(x: &[f64], weight: &[f64]) -> Vec<f64> {
        x.chunks(weight.len())
            .flat_map(|x| {
                let inverse = inverse(x);
                x.iter()
                    .zip(weight)
                    .map(move |(x, weight)| x * inverse * weight)
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn backward_plain(x: &[f64], weight: &[f64], dy: &[f64]) -> Vec<f64> {
        x.chunks(weight.len())
            .zip(dy.chunks(weight.len()))
            .flat_map(|(x, dy)| {
                let inverse = inverse(x);
                let g: Vec<f64> = dy.iter().zip(weight).map(|(dy, weight)| dy * weight).collect();
                let mean = g.iter().zip(x).map(|(g, x)| g * x * inverse).sum::<f64>() / x.len() as f64;
                g.iter()
                    .zip(x)
                    .map(|(g, x)| (g - x * inverse * mean) * inverse)
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn weight_gradient_plain(x: &[f64], dy: &[f64], cols: usize) -> Vec<f64> {
        let mut sums = vec![0.0; cols];
        for (x, dy) in x.chunks(cols).zip(dy.chunks(cols)) {
            let inverse = inverse(x);
            for (sum, (x, dy)) in sums.iter_mut().zip(x.iter().zip(dy)) {
                *sum += dy * x * inverse;
            }
        }
        sums
    }

    fn check<E: Element>(tolerance: f64) {
        at_each_level(|level| {
            for (rows, cols) in [(1, 1), (3, 15), (2, 31), (5, 33), (40, 576), (1, 20_001)] {
                let (x, weight) = (narrowed::<E>(&values(rows * cols, 1)), values(cols, 2));
                let (dy, before) = (values(rows * cols, 3), values(rows * cols, 4));
                let what = format!("{level:?}, {rows} x {cols}");

                let mut out = narrowed::<E>(&before);
                forward(&x, &weight, EPS, &mut out);
                let want = forward_plain(&wide(&x), &wide(&weight));
                assert_close(out.iter().map(|out| out.widen()), &want, tolerance, &what);

                let mut dx = before.clone();
                backward(&x, &weight, EPS, &dy, &mut dx);
                let want: Vec<f64> = backward_plain(&wide(&x), &wide(&weight), &wide(&dy))
                    .iter()
                    .zip(wide(&before))
                    .map(|(dx, before)| dx + before)
                    .collect();
                assert_close(dx, &want, 1e-5, &what);

                let (mut inverses, mut dw) = (vec![f32::NAN; rows], vec![f32::NAN; cols]);
                weight_gradient(&x, &dy, EPS, &mut inverses, &mut dw);
                assert_close(
                    dw.iter().copied(),
                    &weight_gradient_plain(&wide(&x), &wide(&dy), cols),
                    1e-5,
                    &what,
                );

                let mut dy = narrowed::<E>(&dy);
                weight_gradient(&x, &dy, EPS, &mut inverses, &mut dw);
                assert_close(dw, &weight_gradient_plain(&wide(&x), &wide(&dy), cols), 1e-5, &what);
                let want = backward_plain(&wide(&x), &wide(&weight), &wide(&dy));
                backward_in_place(&x, &weight, EPS, &mut dy);
                assert_close(dy.iter().map(|dx| dx.widen()), &want, tolerance.max(1e-5), &what);
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(1e-6);
        check::<f16>(1.0 / 2048.0);
        check::<bf16>(1.0 / 256.0);
    }

    #[test]
    fn a_row_can_be_written_in_another_format() {
        at_each_level(|_| {
            let (x, weight) = (values(33, 1), values(33, 2));
            let mut out = [bf16::ZERO; 33];
            row_into(&x, &weight, 0.5, &mut out);
            let want: Vec<bf16> = x
                .iter()
                .zip(&weight)
                .map(|(x, weight)| bf16::from_f32(x * 0.5 * weight))
                .collect();
            assert_eq!(out[..], want);
        });
    }

    #[test]
    fn what_is_not_a_number_stays_in_its_row() {
        at_each_level(|_| {
            for special in [f32::NAN, f32::INFINITY] {
                let mut x = values(3 * 33, 1);
                x[33 + 32] = special;
                let (weight, dy) = (values(33, 2), values(3 * 33, 3));
                let (mut out, mut dx) = (vec![0.0; 99], vec![0.0; 99]);
                forward(&x, &weight, EPS, &mut out);
                backward(&x, &weight, EPS, &dy, &mut dx);
                for values in [out, dx] {
                    assert!(values[..33].iter().chain(&values[66..]).all(|value| value.is_finite()));
                    assert!(values[33 + 32].is_nan());
                }
            }
        });
    }
}
