//! The step of stochastic gradient descent, in one pass over a parameter.

use rayon::prelude::*;

use super::{Element, InstructionSet, rows::PART};
use crate::Dispatch as _;

/// The numbers that all elements of a step share.
#[derive(Debug, Clone, Copy)]
pub struct Coefficients {
    /// `1 - learning_rate · weight_decay`.
    pub decay: f32,
    /// The learning rate.
    pub rate: f32,
}

/// Moves each value against its gradient. Both slices have one length.
pub fn step<E: Element>(values: &mut [E], gradients: &[E], c: Coefficients) {
    assert!(values.len() == gradients.len());
    let level = InstructionSet::current();
    let parts = values.par_chunks_mut(PART).zip(gradients.par_chunks(PART));
    parts.for_each(|(values, gradients)| {
        level.run(
            #[inline(always)]
            || {
                for (value, gradient) in values.iter_mut().zip(gradients) {
                    *value = E::narrow(value.widen() * c.decay - gradient.widen() * c.rate);
                }
            },
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

    fn check<E: Element>(tolerance: f64) {
        let c = Coefficients { decay: 0.98, rate: 0.1 };
        at_each_level(|level| {
            for count in COUNTS {
                let (mut value, gradient) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                let pairs = value.iter().zip(&gradient);
                let want: Vec<f64> = pairs
                    .map(|(value, gradient)| [value.widen(), gradient.widen()].map(f64::from))
                    .map(|[value, gradient]| value * f64::from(c.decay) - gradient * f64::from(c.rate))
                    .collect();
                step(&mut value, &gradient, c);
                let got = value.iter().map(|value| value.widen());
                assert_close(got, &want, tolerance, &format!("{level:?}, {count}"));
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(1e-6);
        check::<f16>(1.0 / 2048.0);
        check::<bf16>(1.0 / 256.0);
    }
}
