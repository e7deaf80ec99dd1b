//! SwiGLU (Shazeer 2020, arXiv:2002.05202): `silu(gate) · up`.

use candle_core::{Result, Tensor as Candle};

use super::interface::Activation;
use crate::{
    kernels::gated::{self, Silu},
    memory,
    nn::tensor::{Tensor, for_format},
};

/// The activation of gate and up.
#[derive(Debug)]
pub struct SwiGlu;

impl Activation<2> for SwiGlu {
    fn forward(&self, [gate, up]: &[Tensor; 2]) -> Result<Tensor> {
        if !gate.has_kernels() {
            return forward_plain(gate, up);
        }
        for_format!(gate.dtype(), E => {
            let (g, u) = (gate.values::<E>()?, up.values::<E>()?);
            Ok(Tensor::written(gate.shape(), |out: &mut [E]| gated::forward::<Silu, E>(g, u, out)))
        })
    }

    fn backward(&self, [mut gate, mut up]: [Tensor; 2], mut dy: Tensor) -> Result<([Tensor; 2], Tensor)> {
        if !gate.has_kernels() {
            let product = forward_plain(&gate, &up)?;
            let dtype = gate.dtype();
            let [d_gate, d_up] = backward_plain(&gate, &up, &dy)?.map(|d| Tensor::from_candle(d.to_dtype(dtype)?));
            return Ok(([d_gate?, d_up?], product));
        }
        if !memory::is_dry_run() {
            for_format!(gate.dtype(), E => {
                gated::backward_in_place::<Silu, E>(gate.values_mut::<E>()?, up.values_mut()?, dy.values_mut()?);
                Ok(())
            })?;
        }
        Ok(([gate, up], dy))
    }
}

fn forward_plain(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let y = (gate.to_candle_f32()?.silu()? * up.to_candle_f32()?)?;
    Tensor::from_candle(y.to_dtype(gate.dtype())?)
}

/// `silu'(g) = s(g) (1 + g (1 - s(g)))` with the logistic function s.
fn backward_plain(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<[Candle; 2]> {
    let [gate, up, dy] = [gate, up, dy].map(Tensor::to_candle_f32);
    let (gate, up, dy) = (gate?, up?, dy?);
    let sigmoid = ((gate.neg()?.exp()? + 1.0)?).recip()?;
    let silu = (&gate * &sigmoid)?;
    let d_up = (&dy * &silu)?;
    let slope = ((&silu - (&silu * &sigmoid)?)? + sigmoid)?;
    let d_gate = ((dy * up)? * slope)?;
    Ok([d_gate, d_up])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, autograd, elements, tensor, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for shape in [[1, 1], [3, 17], [130, 255]] {
            let (gate, up) = ((uniform("gate", &shape) * 8.0).unwrap(), uniform("up", &shape));
            let dy = uniform("dy", &shape);
            let product = |inputs: &[Candle]| (inputs[0].silu().unwrap() * &inputs[1]).unwrap();
            let want = product(&[gate.clone(), up.clone()]);
            let oracle = autograd(&[&gate, &up], &dy, product);
            let check = || {
                let inputs = || [tensor(&gate), tensor(&up)];
                assert_close(&SwiGlu.forward(&inputs()).unwrap(), &want, 1e-6, "forward");
                let ([d_gate, d_up], product) = SwiGlu.backward(inputs(), tensor(&dy)).unwrap();
                assert_close(&d_gate, &oracle[0], 1e-5, "gate");
                assert_close(&d_up, &oracle[1], 1e-5, "up");
                assert_close(&product, &want, 1e-6, "product");
            };
            check();
            with_plain_ops(check);
        }
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
