//! SwiGLU (Shazeer 2020, arXiv:2002.05202): `silu(gate) · up`.

use candle_core::{Result, Tensor as Candle};
use kernels::gated::Silu;

use super::gated::Gated;

/// The activation of gate and up.
#[derive(Debug)]
pub struct SwiGlu;

impl Gated for SwiGlu {
    type Kernel = Silu;

    fn value(gate: &Candle) -> Result<Candle> {
        gate.silu()
    }

    /// `silu'(g) = s(g) (1 + g (1 - s(g)))` with the logistic function s.
    fn value_and_slope(gate: &Candle) -> Result<[Candle; 2]> {
        let sigmoid = ((gate.neg()?.exp()? + 1.0)?).recip()?;
        let silu = (gate * &sigmoid)?;
        let slope = ((&silu - (&silu * &sigmoid)?)? + sigmoid)?;
        Ok([silu, slope])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        activation::{Activation, gated::agrees_with_autograd},
        testing::{elements, tensor},
    };

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        agrees_with_autograd(&SwiGlu, &[[1, 1], [3, 17], [130, 255]], 8.0);
    }

    #[test]
    fn far_values_do_not_overflow() {
        let gate = Candle::new(&[[-200f32, 200.0]], &candle_core::Device::Cpu).unwrap();
        let one = gate.ones_like().unwrap();
        let inputs = || [tensor(&gate), tensor(&one)];
        assert_eq!(elements(&SwiGlu.forward(&inputs()).unwrap()), [0.0, 200.0]);
        let ([d_gate, _], _) = SwiGlu.backward(inputs(), tensor(&one)).unwrap();
        assert_eq!(elements(&d_gate), [0.0, 1.0]);
    }
}
