//! AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), as `torch.optim.AdamW` computes it. An adapter's moments have
//! its dtype; those of weights are float32.

use candle_core::{Result, Tensor as Candle};
use kernels::adamw::{self, Coefficients};
use options::AdamwOptions;

use super::each_param::EachParam;
use super::elementwise::{Elementwise, Rule};
use crate::tensor::Float;

/// AdamW with its two moments.
pub(super) type AdamW = EachParam<Elementwise<AdamwRule, 2>>;

/// AdamW's rule of an element.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdamwRule(pub(super) AdamwOptions);

impl Rule<2> for AdamwRule {
    type Coefficients = Coefficients;

    fn coefficients(&self, step: usize, learning_rate: f64) -> Coefficients {
        let options = self.0;
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        Coefficients {
            beta1: options.beta1 as f32,
            beta2: options.beta2 as f32,
            epsilon: options.epsilon as f32,
            decay: (1.0 - learning_rate * options.weight_decay) as f32,
            rate: (learning_rate / (1.0 - options.beta1.powi(step))) as f32,
            root_correction: (1.0 / (1.0 - options.beta2.powi(step)).sqrt()) as f32,
        }
    }

    fn update<E: Float>(values: &mut [E], gradients: &[E], [m, v]: [&mut [f32]; 2], c: Coefficients) {
        adamw::step(values, gradients, m, v, c);
    }

    fn update_plain(values: &Candle, gradients: &Candle, [m, v]: &mut [Candle; 2], c: Coefficients) -> Result<Candle> {
        let change = moments_plain(gradients, m, v, c)?;
        (values * f64::from(c.decay))? - change
    }
}

/// Updates the moments by a float32 gradient, into new tensors. Returns the amount to subtract from the values.
pub(super) fn moments_plain(gradient: &Candle, m: &mut Candle, v: &mut Candle, c: Coefficients) -> Result<Candle> {
    let scaled = |x: &Candle, factor: f32| x * f64::from(factor);
    *m = (scaled(m, c.beta1)? + scaled(gradient, 1.0 - c.beta1)?)?;
    *v = (scaled(v, c.beta2)? + scaled(&gradient.sqr()?, 1.0 - c.beta2)?)?;
    let denominator = (scaled(&v.sqrt()?, c.root_correction)? + f64::from(c.epsilon))?;
    scaled(&(&*m / denominator)?, c.rate)
}

#[cfg(test)]
mod tests {
    use arch::ModuleName;
    use candle_core::DType;

    use super::*;
    use crate::optim::{optimizer::Optimizer, testing::assert_kernel_and_plain_ops_agree};
    use crate::{param::Param, tensor::Tensor};

    fn vector(values: &[f32]) -> Tensor {
        Tensor::from_f32(values, values.len(), DType::F32).unwrap()
    }

    fn optimizer(weight_decay: f64) -> AdamW {
        let rule = AdamwRule(AdamwOptions {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay,
        });
        AdamW::new(Elementwise(rule), false)
    }

    #[test]
    fn the_first_step_moves_by_the_learning_rate_against_the_sign() {
        let mut param = Param::adapter(ModuleName::new("p").part("weight"), vector(&[1.0, -2.0, 0.0]));
        param.accumulate(vector(&[0.5, -3.0, 0.0])).unwrap();
        optimizer(0.0).step(&mut [&mut param], 0.01).unwrap();
        let got = param.value.to_vec_f32().unwrap();
        for (got, want) in got.iter().zip([0.99, -1.99, 0.0]) {
            assert!((got - want).abs() < 1e-6);
        }
    }

    #[test]
    fn kernel_and_plain_ops_agree() {
        // Many small ones, a large one, and one without a gradient.
        let mut shapes: Vec<Vec<usize>> = (0..40).map(|index| vec![3, 1 + index]).collect();
        shapes[7] = vec![130, 301];
        assert_kernel_and_plain_ops_agree(&shapes, Some(11), || optimizer(0.1), 1e-6);
    }
}
