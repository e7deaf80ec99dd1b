//! Lion (Chen et al. 2023, arXiv:2302.06675, algorithm 2). An adapter's momentum has its dtype; that of
//! weights is float32.

use candle_core::{Result, Tensor as Candle};
use kernels::lion::{self, Coefficients};
use options::AdamwOptions;

use super::elementwise::Rule;
use crate::tensor::Float;

/// Lion's rule of an element. It has no use for epsilon.
#[derive(Debug, Clone, Copy)]
pub(super) struct LionRule(pub(super) AdamwOptions);

impl Rule<1> for LionRule {
    type Coefficients = Coefficients;

    fn coefficients(&self, _: usize, learning_rate: f64) -> Coefficients {
        let options = self.0;
        Coefficients {
            beta1: options.beta1 as f32,
            beta2: options.beta2 as f32,
            decay: (1.0 - learning_rate * options.weight_decay) as f32,
            rate: learning_rate as f32,
        }
    }

    fn update<E: Float>(values: &mut [E], gradients: &[E], [m]: [&mut [f32]; 1], c: Coefficients) {
        lion::step(values, gradients, m, c);
    }

    fn update_plain(values: &Candle, gradients: &Candle, [m]: &mut [Candle; 1], c: Coefficients) -> Result<Candle> {
        let average = |m: &Candle, beta: f32| (m * f64::from(beta))? + (gradients * f64::from(1.0 - beta))?;
        let direction = average(m, c.beta1)?.sign()?;
        *m = average(m, c.beta2)?;
        (values * f64::from(c.decay))? - (direction * f64::from(c.rate))?
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candle_core::{DType, Device, IndexOp, safetensors};

    use super::*;
    use crate::optim::{Optimizer, each_param::EachParam, elementwise::Elementwise};
    use crate::testing::{assert_close, param, tensor, with_plain_ops};

    fn options(weight_decay: f64) -> AdamwOptions {
        AdamwOptions {
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            weight_decay,
        }
    }

    /// bitsandbytes' and the paper's steps (`python/golden/lion.py`).
    #[test]
    fn steps_are_the_papers() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/lion.safetensors");
        let golden = safetensors::load(file, &Device::Cpu).unwrap();
        let steps = || {
            for (case, weight_decay) in [
                ("float32", 0.0),
                ("float32.decay", 0.1),
                ("bfloat16", 0.0),
                ("bfloat16.decay", 0.1),
            ] {
                let of = |what: &str| &golden[&format!("{case}.{what}")];
                let mut param = param("p", of("start"), true);
                let mut optimizer = EachParam::new(Elementwise(LionRule(options(weight_decay))), false);
                for step in 0..6 {
                    param.accumulate(tensor(&of("gradients").i(step).unwrap())).unwrap();
                    optimizer.step(&mut [&mut param], 0.01).unwrap();
                    param.release_gradient();
                    let what = format!("{case}, step {step}");
                    // A product that is fused with a sum differs in the last bit.
                    let tolerance = if param.value.dtype() == DType::F32 {
                        1e-6
                    } else {
                        1.0 / 256.0
                    };
                    assert_close(&param.value, &tensor(&of("values").i(step).unwrap()), tolerance, &what);
                    let momentum = tensor(&of("momentum").i(step).unwrap());
                    assert_close(&optimizer.states[0][0], &momentum, 1e-6, &what);
                }
            }
        };
        steps();
        with_plain_ops(steps);
    }
}
