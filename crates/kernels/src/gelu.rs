//! GELU, exact: `x · Φ(x)` with the normal distribution's Φ (Hendrycks and Gimpel 2016, arXiv:1606.08415).

use rayon::prelude::*;

use super::{Element, InstructionSet, arithmetic::Arithmetic, rows::PART};
use crate::Dispatch as _;

/// Writes `gelu(x)`, rounded once.
///
/// # Panics
/// If the slices differ in length.
pub fn forward<E: Element>(x: &[E], out: &mut [E]) {
    assert_eq!(x.len(), out.len());
    let level = InstructionSet::current();
    let parts = x.par_chunks(PART).zip(out.par_chunks_mut(PART));
    parts.for_each(|(x, out)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                for (out, x) in out.iter_mut().zip(x) {
                    let x = x.widen();
                    *out = E::narrow(x * normal(x, arithmetic).0);
                }
            },
        );
    });
}

/// The backward pass in place: `dy`, the gradient of `gelu(x)`, becomes that again, as [`forward`] has it, and `x`
/// becomes its gradient, each rounded once.
pub fn backward_in_place<E: Element>(x: &mut [E], dy: &mut [E]) {
    assert_eq!(x.len(), dy.len());
    let level = InstructionSet::current();
    let parts = x.par_chunks_mut(PART).zip(dy.par_chunks_mut(PART));
    parts.for_each(|(x, dy)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                for (x, dy) in x.iter_mut().zip(dy) {
                    let value = x.widen();
                    let (share, density) = normal(value, arithmetic);
                    *x = E::narrow(dy.widen() * arithmetic.mul_add(value, density, share));
                    *dy = E::narrow(value * share);
                }
            },
        );
    });
}

/// `Φ(x)` and its derivative. `Φ(-|x|) = e^(-x²/2) · q(t)` with `t = 1 / (1 + 0.33 |x|)` and a polynomial whose
/// relative error is at most 4.8e-8 for `|x|` up to 13.3, past which the power is 0 (fitted by Lawson's method).
#[inline(always)]
fn normal(x: f32, arithmetic: Arithmetic) -> (f32, f32) {
    const DENSITY: f32 = 0.398_942_3; // 1 / sqrt(2π)
    let power = arithmetic.exp(-0.5 * x * x);
    let t = 1.0 / arithmetic.mul_add(x.abs(), 0.33, 1.0);
    let mut q = COEFFICIENTS[0];
    for coefficient in &COEFFICIENTS[1..] {
        q = arithmetic.mul_add(q, t, *coefficient);
    }
    let tail = power * q * t;
    let share = std::hint::select_unpredictable(x < 0.0, tail, 1.0 - tail);
    (share, DENSITY * power)
}

/// Of t⁹ to t.
const COEFFICIENTS: [f32; 9] = [
    -2.133_634_3e-2,
    1.255_999_4e-1,
    -2.722_757_2e-1,
    2.303_024_4e-1,
    -6.032_903e-2,
    1.233_841_8e-1,
    1.106_808_9e-1,
    1.323_544e-1,
    1.316_192_8e-1,
];

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, assert_close, narrowed, values},
    };

    /// `Φ(x)` by its series in double precision: `1/2 + φ(x) (x + x³/3 + x⁵/15 + …)`.
    fn share(x: f64) -> f64 {
        let (mut term, mut sum, mut n) = (x, x, 1.0);
        while f64::abs(term) > 1e-18 {
            n += 2.0;
            term *= x * x / n;
            sum += term;
        }
        0.5 + density(x) * sum
    }

    fn density(x: f64) -> f64 {
        (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }

    fn check<E: Element + PartialEq + std::fmt::Debug>(tolerance: f64) {
        at_each_level(|level| {
            for count in COUNTS {
                let [x, dy] = [1, 2].map(|seed| narrowed::<E>(&values(count, seed)));
                let what = format!("{level:?}, {count}");
                let wide = |values: &[E]| -> Vec<f64> { values.iter().map(|value| f64::from(value.widen())).collect() };
                let product: Vec<f64> = wide(&x).iter().map(|&x| x * share(x)).collect();
                let gradient: Vec<f64> = wide(&x)
                    .iter()
                    .zip(wide(&dy))
                    .map(|(&x, dy)| dy * (share(x) + x * density(x)))
                    .collect();
                let mut out = x.clone();
                forward(&x, &mut out);
                assert_close(out.iter().map(|out| out.widen()), &product, tolerance, &what);
                let (mut dx, mut again) = (x, dy);
                backward_in_place(&mut dx, &mut again);
                assert_eq!(again, out, "{what}: the product is that of the forward pass");
                assert_close(dx.iter().map(|dx| dx.widen()), &gradient, tolerance, &what);
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
    fn the_ends_are_flat_and_what_is_not_a_number_stays_so() {
        at_each_level(|_| {
            let x: Vec<f32> = [-200.0, 200.0, f32::NAN, -14.0, 14.0]
                .into_iter()
                .cycle()
                .take(45)
                .collect();
            let (mut dx, mut product) = (x.clone(), vec![1.0; 45]);
            backward_in_place(&mut dx, &mut product);
            for at in 0..45 {
                if at % 5 == 2 {
                    assert!(dx[at].is_nan() && product[at].is_nan());
                } else {
                    assert!((product[at] - x[at].max(0.0)).abs() < 1e-30);
                    assert!((dx[at] - f32::from(u8::from(x[at] > 0.0))).abs() < 1e-30);
                }
            }
        });
    }
}
