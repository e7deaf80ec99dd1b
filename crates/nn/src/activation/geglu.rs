//! GeGLU (Shazeer 2020, arXiv:2002.05202): `gelu(gate) · up`, with GELU's approximation by tanh.

use std::f64::consts::PI;

use candle_core::{Result, Tensor as Candle};
use kernels::gated::GeluTanh;

use super::gated::Gated;

/// The factor of x³.
const CUBIC: f64 = 0.044_715;

/// The activation of gate and up; transformers' `gelu_pytorch_tanh` of the gate.
#[derive(Debug)]
pub struct GeGlu;

impl Gated for GeGlu {
    type Kernel = GeluTanh;

    /// `x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`.
    fn value(gate: &Candle) -> Result<Candle> {
        (gate * share(&tanh(gate)?)?)?.contiguous()
    }

    /// With `t = tanh(u)` and `u = √(2/π) (g + 0.044715 g³)`, the derivative is `(1 + t) / 2 + g (1 - t²) u' / 2`.
    fn value_and_slope(gate: &Candle) -> Result<[Candle; 2]> {
        let tanh = tanh(gate)?;
        let share = share(&tanh)?;
        let half_slope = (((gate.sqr()? * (3.0 * CUBIC))? + 1.0)? * (0.5 * (2.0 / PI).sqrt()))?;
        let bend = ((tanh.sqr()?.neg()? + 1.0)? * half_slope)?;
        Ok([(gate * &share)?, (share + (gate * bend)?)?])
    }
}

fn tanh(x: &Candle) -> Result<Candle> {
    let inner = (x * ((x.sqr()? * CUBIC)? + 1.0)?)?;
    (inner * (2.0 / PI).sqrt())?.tanh()
}

/// The share of x in the value.
fn share(tanh: &Candle) -> Result<Candle> {
    (tanh + 1.0)? * 0.5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::gated::agrees_with_autograd;

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        // Of a single gate far below 0 the definition by tanh leaves few digits.
        agrees_with_autograd(&GeGlu, &[[2, 9], [3, 17], [130, 255]], 5.0);
    }
}
