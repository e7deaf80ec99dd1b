//! Lion's update (Chen et al. 2023, arXiv:2302.06675, algorithm 2), in one pass over a parameter.

use rayon::prelude::*;

use super::{Element, InstructionSet, rows::PART};
use crate::Dispatch as _;

/// The numbers that all elements of a step share.
#[derive(Debug, Clone, Copy)]
pub struct Coefficients {
    /// Weight of the momentum in the direction of the step.
    pub beta1: f32,
    /// Decay of the momentum.
    pub beta2: f32,
    /// `1 - learning_rate · weight_decay`.
    pub decay: f32,
    /// The learning rate.
    pub rate: f32,
}

/// Moves each value by the sign of `beta1 · m + (1 - beta1) · gradient`, and updates the momentum `m`. All slices have
/// one length. The sign of 0 is 0.
pub fn step<E: Element>(values: &mut [E], gradients: &[E], m: &mut [f32], c: Coefficients) {
    assert!(values.len() == gradients.len() && values.len() == m.len());
    let level = InstructionSet::current();
    let parts = values.par_chunks_mut(PART).zip(gradients.par_chunks(PART));
    parts.zip(m.par_chunks_mut(PART)).for_each(|((values, gradients), m)| {
        level.run(
            #[inline(always)]
            || step_part(values, gradients, m, c),
        );
    });
}

/// A function of its own, so that the compiler knows that no element changes the coefficients.
#[inline(always)]
fn step_part<E: Element>(values: &mut [E], gradients: &[E], m: &mut [f32], c: Coefficients) {
    for ((value, gradient), m) in values.iter_mut().zip(gradients).zip(m) {
        let gradient = gradient.widen();
        let direction = sign(*m * c.beta1 + gradient * (1.0 - c.beta1));
        *value = E::narrow(value.widen() * c.decay - direction * c.rate);
        *m = *m * c.beta2 + gradient * (1.0 - c.beta2);
    }
}

/// -1, 0 or 1; not a number for one that is not. Unlike `f32::signum`, 0 has the sign 0.
#[inline(always)]
fn sign(value: f32) -> f32 {
    if value == 0.0 || value.is_nan() {
        value
    } else {
        1f32.copysign(value)
    }
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
        beta1: 0.9,
        beta2: 0.99,
        decay: 0.98,
        rate: 0.1,
    };

    /// Value and momentum after a step, in double precision.
    fn step_plain(value: f64, gradient: f64, m: f64) -> [f64; 2] {
        let Coefficients {
            beta1,
            beta2,
            decay,
            rate,
        } = COEFFICIENTS;
        let [beta1, beta2, decay, rate] = [beta1, beta2, decay, rate].map(f64::from);
        let direction = m * beta1 + gradient * (1.0 - beta1);
        let sign = f64::from(i8::from(direction > 0.0) - i8::from(direction < 0.0));
        [value * decay - sign * rate, m * beta2 + gradient * (1.0 - beta2)]
    }

    fn check<E: Element>(tolerance: f64) {
        at_each_level(|level| {
            for count in COUNTS {
                let mut m = values(count, 3);
                let (mut value, mut gradient) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                // Some directions are exactly zero.
                for at in (0..count).step_by(3) {
                    (gradient[at], m[at]) = (E::narrow(0.0), 0.0);
                }
                let want: Vec<[f64; 2]> = (0..count)
                    .map(|i| {
                        let [value, gradient] = [value[i], gradient[i]].map(|value| f64::from(value.widen()));
                        step_plain(value, gradient, f64::from(m[i]))
                    })
                    .collect();
                step(&mut value, &gradient, &mut m, COEFFICIENTS);
                let close = |got: Vec<f32>, which: usize, tolerance: f64| {
                    let want: Vec<f64> = want.iter().map(|want| want[which]).collect();
                    assert_close(got, &want, tolerance, &format!("{level:?}, {count}, {which}"));
                };
                close(value.iter().map(|value| value.widen()).collect(), 0, tolerance);
                close(m, 1, 1e-6);
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
    fn signs_are_those_of_the_direction() {
        for (value, want) in [
            (-0.0, 0.0),
            (0.0, 0.0),
            (1e-45, 1.0),
            (-1e-45, -1.0),
            (f32::INFINITY, 1.0),
        ] {
            assert_eq!(sign(value), want, "{value}");
        }
    }

    #[test]
    fn what_is_not_a_number_stays_in_its_element() {
        at_each_level(|_| {
            let (mut value, mut gradient, mut m) = (values(33, 1), values(33, 2), vec![0.0; 33]);
            (gradient[3], gradient[32]) = (f32::NAN, f32::NAN);
            step(&mut value, &gradient, &mut m, COEFFICIENTS);
            for (at, value) in value.iter().enumerate() {
                assert_eq!(value.is_nan(), at == 3 || at == 32, "{at}");
            }
        });
    }
}
