//! Stochastic gradient descent without momentum, as `torch.optim.SGD`. It has no state.

use candle_core::{Result, Tensor as Candle};
use kernels::sgd::{self, Coefficients};

use super::elementwise::Rule;
use crate::tensor::Float;

/// The rule of an element. PyTorch adds `weight_decay · value` to the gradient, which is the same as AdamW's decay
/// here.
#[derive(Debug, Clone, Copy)]
pub(super) struct SgdRule {
    pub(super) weight_decay: f64,
}

impl Rule<0> for SgdRule {
    type Coefficients = Coefficients;

    fn coefficients(&self, _: usize, learning_rate: f64) -> Coefficients {
        Coefficients {
            decay: (1.0 - learning_rate * self.weight_decay) as f32,
            rate: learning_rate as f32,
        }
    }

    fn update<E: Float>(values: &mut [E], gradients: &[E], []: [&mut [f32]; 0], c: Coefficients) {
        sgd::step(values, gradients, c);
    }

    fn update_plain(values: &Candle, gradients: &Candle, []: &mut [Candle; 0], c: Coefficients) -> Result<Candle> {
        (values * f64::from(c.decay))? - (gradients * f64::from(c.rate))?
    }
}

#[cfg(test)]
mod tests {
    use arch::ModuleName;

    use super::*;
    use crate::optim::{each_param::EachParam, elementwise::Elementwise, optimizer::Optimizer};
    use crate::{
        param::Param,
        testing::{assert_close, elements, uniform_tensor, with_plain_ops},
    };

    #[test]
    fn a_step_is_the_gradient_and_the_decay() {
        let step = || {
            let mut param = Param::base(ModuleName::new("p").part("weight"), uniform_tensor("p", &[3, 70]), true);
            param.accumulate(uniform_tensor("g", &[3, 70])).unwrap();
            let mut sgd = EachParam::new(Elementwise(SgdRule { weight_decay: 0.1 }), false);
            sgd.step(&mut [&mut param], 0.5).unwrap();
            param.value
        };
        let (value, gradient) = (uniform_tensor("p", &[3, 70]), uniform_tensor("g", &[3, 70]));
        let want = elements(&value).into_iter().zip(elements(&gradient));
        let want: Vec<f32> = want
            .map(|(value, gradient)| value - 0.5 * (gradient + 0.1 * value))
            .collect();
        let want = candle_core::Tensor::from_vec(want, (3, 70), &candle_core::Device::Cpu).unwrap();
        assert_close(&step(), &want, 1e-6, "kernels");
        assert_close(&with_plain_ops(step), &want, 1e-6, "plain ops");
    }
}
