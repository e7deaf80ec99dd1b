//! AdamW's update, in one pass over a parameter.

use rayon::prelude::*;

use super::{Element, InstructionSet, rows::PART};
use crate::Dispatch as _;

/// What is the same for every element of a step.
#[derive(Debug, Clone, Copy)]
pub struct Coefficients {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the corrected second moment.
    pub epsilon: f32,
    /// `1 - learning_rate · weight_decay`.
    pub decay: f32,
    /// `learning_rate / (1 - beta1^t)`.
    pub rate: f32,
    /// `1 / sqrt(1 - beta2^t)`.
    pub root_correction: f32,
}

/// Moves `values` by `gradients` and updates both moments.
pub fn step<E: Element>(values: &mut [E], gradients: &[E], m: &mut [f32], v: &mut [f32], c: Coefficients) {
    assert!(values.len() == gradients.len() && values.len() == m.len() && values.len() == v.len());
    let level = InstructionSet::current();
    let parts = values.par_chunks_mut(PART).zip(gradients.par_chunks(PART));
    let moments = m.par_chunks_mut(PART).zip(v.par_chunks_mut(PART));
    parts.zip(moments).for_each(|((values, gradients), (m, v))| {
        level.run(
            #[inline(always)]
            || step_part(values, gradients, m, v, c),
        );
    });
}

/// A function of its own, so that it is given a copy of the coefficients: what is behind a reference might change with
/// the values, for all that the compiler knows.
#[inline(always)]
fn step_part<E: Element>(values: &mut [E], gradients: &[E], m: &mut [f32], v: &mut [f32], c: Coefficients) {
    for (((value, gradient), m), v) in values.iter_mut().zip(gradients).zip(m).zip(v) {
        let change = change_one(gradient.widen(), m, v, c);
        *value = E::narrow(value.widen() * c.decay - change);
    }
}

/// Updates both moments, and puts in place of each gradient what is to be taken from its value.
pub fn change(gradients: &mut [f32], m: &mut [f32], v: &mut [f32], c: Coefficients) {
    assert!(gradients.len() == m.len() && gradients.len() == v.len());
    let level = InstructionSet::current();
    let moments = m.par_chunks_mut(PART).zip(v.par_chunks_mut(PART));
    gradients
        .par_chunks_mut(PART)
        .zip(moments)
        .for_each(|(gradients, (m, v))| {
            level.run(
                #[inline(always)]
                || change_part(gradients, m, v, c),
            );
        });
}

/// For the same reason as [`step_part`].
#[inline(always)]
fn change_part(gradients: &mut [f32], m: &mut [f32], v: &mut [f32], c: Coefficients) {
    for ((gradient, m), v) in gradients.iter_mut().zip(m).zip(v) {
        *gradient = change_one(*gradient, m, v, c);
    }
}

/// What is to be taken from a value, and its moments' update.
#[inline(always)]
fn change_one(gradient: f32, m: &mut f32, v: &mut f32, c: Coefficients) -> f32 {
    *m = *m * c.beta1 + gradient * (1.0 - c.beta1);
    *v = *v * c.beta2 + gradient * gradient * (1.0 - c.beta2);
    *m / (v.sqrt() * c.root_correction + c.epsilon) * c.rate
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
        epsilon: 1e-3,
        decay: 0.98,
        rate: 0.1,
        root_correction: 1.5,
    };

    /// Value and both moments after a step, in double precision.
    fn step_plain(value: f64, gradient: f64, m: f64, v: f64) -> [f64; 3] {
        let c = COEFFICIENTS;
        let [beta1, beta2, epsilon, decay, rate, root] =
            [c.beta1, c.beta2, c.epsilon, c.decay, c.rate, c.root_correction].map(f64::from);
        let m = m * beta1 + gradient * (1.0 - beta1);
        let v = v * beta2 + gradient * gradient * (1.0 - beta2);
        [value * decay - m / (v.sqrt() * root + epsilon) * rate, m, v]
    }

    #[test]
    fn a_change_is_what_a_step_takes_from_the_values() {
        at_each_level(|_| {
            for count in COUNTS {
                let (gradient, mut m, mut v) = (values(count, 2), values(count, 3), vec![0.5; count]);
                let (mut value, mut change, mut n, mut w) = (vec![0.0; count], gradient.clone(), m.clone(), v.clone());
                step(&mut value, &gradient, &mut m, &mut v, COEFFICIENTS);
                super::change(&mut change, &mut n, &mut w, COEFFICIENTS);
                assert_eq!((m, v), (n, w));
                assert!(value.iter().zip(&change).all(|(value, change)| *value == -change));
            }
        });
    }

    fn check<E: Element>(tolerance: f64) {
        at_each_level(|level| {
            for count in COUNTS {
                let (mut value, gradient) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                let (mut m, mut v) = (values(count, 3), values(count, 4));
                v.iter_mut().for_each(|v| *v = v.abs());
                let want: Vec<[f64; 3]> = (0..count)
                    .map(|i| {
                        let [value, gradient] = [value[i], gradient[i]].map(|value| f64::from(value.widen()));
                        step_plain(value, gradient, f64::from(m[i]), f64::from(v[i]))
                    })
                    .collect();
                step(&mut value, &gradient, &mut m, &mut v, COEFFICIENTS);
                let close = |got: Vec<f32>, which: usize, tolerance: f64| {
                    let want: Vec<f64> = want.iter().map(|want| want[which]).collect();
                    assert_close(got, &want, tolerance, &format!("{level:?}, {count}, {which}"));
                };
                close(value.iter().map(|value| value.widen()).collect(), 0, tolerance);
                close(m, 1, 1e-6);
                close(v, 2, 1e-6);
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
    fn what_is_not_a_number_stays_in_its_element() {
        at_each_level(|_| {
            let (mut value, mut gradient, mut m, mut v) = (values(33, 1), values(33, 2), vec![0.0; 33], vec![0.0; 33]);
            (gradient[3], gradient[32]) = (f32::NAN, f32::NAN);
            step(&mut value, &gradient, &mut m, &mut v, COEFFICIENTS);
            for (at, value) in value.iter().enumerate() {
                assert_eq!(value.is_nan(), at == 3 || at == 32, "{at}");
            }
        });
    }
}
