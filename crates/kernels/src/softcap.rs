//! Soft caps (Gemma 2, arXiv:2408.00118): `cap · tanh(x / cap)`.

use super::{Element, arithmetic::Arithmetic, rows::for_rows_by};

/// The bound of values that are capped softly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftCap(pub f32);

impl SoftCap {
    /// The capped value.
    #[inline(always)]
    pub fn apply(self, arithmetic: Arithmetic, x: f32) -> f32 {
        self.0 * arithmetic.tanh(x * (1.0 / self.0))
    }

    /// The derivative, given the capped value.
    #[inline(always)]
    pub fn slope(self, capped: f32) -> f32 {
        let tanh = capped * (1.0 / self.0);
        1.0 - tanh * tanh
    }
}

/// Caps values in place.
pub fn forward_in_place<E: Element>(values: &mut [E], cap: SoftCap) {
    for_rows_by(
        values,
        1,
        #[inline(always)]
        |arithmetic, _, part| {
            for value in part {
                *value = E::narrow(cap.apply(arithmetic, value.widen()));
            }
        },
    );
}

/// Multiplies the gradients of capped values by the slopes, in place.
pub fn backward_in_place<E: Element, G: Element>(capped: &[E], gradients: &mut [G], cap: SoftCap) {
    assert_eq!(capped.len(), gradients.len());
    for_rows_by(
        gradients,
        1,
        #[inline(always)]
        |_, start, part| {
            for (gradient, capped) in part.iter_mut().zip(&capped[start..]) {
                *gradient = G::narrow(gradient.widen() * cap.slope(capped.widen()));
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, assert_close, narrowed, values},
    };

    fn check<E: Element>(tolerance: f64) {
        at_each_level(|level| {
            for count in COUNTS {
                let (x, dy) = (narrowed::<E>(&values(count, 1)), values(count, 2));
                let what = format!("{level:?}, {count}");
                let mut capped = x.clone();
                forward_in_place(&mut capped, SoftCap(3.0));
                let want: Vec<f64> = x.iter().map(|x| 3.0 * (f64::from(x.widen()) / 3.0).tanh()).collect();
                assert_close(capped.iter().map(|value| value.widen()), &want, tolerance, &what);
                let slope = |capped: &E| 1.0 - (f64::from(capped.widen()) / 3.0).powi(2);
                let want: Vec<f64> = dy
                    .iter()
                    .zip(&capped)
                    .map(|(dy, capped)| f64::from(*dy) * slope(capped))
                    .collect();
                let mut dx = dy;
                backward_in_place(&capped, &mut dx, SoftCap(3.0));
                assert_close(dx, &want, 1e-6, &what);
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(1e-6);
        check::<bf16>(1.0 / 256.0);
    }
}
