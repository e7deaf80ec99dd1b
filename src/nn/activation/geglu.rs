//! GeGLU (Shazeer 2020, arXiv:2002.05202): `gelu(gate) · up`, with GELU's approximation by tanh.

use candle_core::{Result, Tensor as Candle};

use super::interface::Activation;
use crate::{
    kernels::gated::{self, GeluTanh},
    memory,
    nn::tensor::{Tensor, for_format},
};

/// The activation of gate and up; transformers' `gelu_pytorch_tanh` of the gate.
#[derive(Debug)]
pub struct GeGlu;

impl Activation<2> for GeGlu {
    fn forward(&self, [gate, up]: &[Tensor; 2]) -> Result<Tensor> {
        if !gate.has_kernels() {
            return forward_plain(gate, up);
        }
        for_format!(gate.dtype(), E => {
            let (g, u) = (gate.values::<E>()?, up.values::<E>()?);
            Ok(Tensor::written(gate.shape(), |out: &mut [E]| gated::forward::<GeluTanh, E>(g, u, out)))
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
                gated::backward_in_place::<GeluTanh, E>(gate.values_mut::<E>()?, up.values_mut()?, dy.values_mut()?);
                Ok(())
            })?;
        }
        Ok(([gate, up], dy))
    }
}

fn forward_plain(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let y = (gelu(&gate.to_candle_f32()?)? * up.to_candle_f32()?)?;
    Tensor::from_candle(y.to_dtype(gate.dtype())?)
}

/// `x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`.
fn gelu(x: &Candle) -> Result<Candle> {
    let inner = (x * ((x.sqr()? * 0.044_715)? + 1.0)?)?;
    let tanh = (inner * (2.0 / std::f64::consts::PI).sqrt())?.tanh()?;
    (x * ((tanh + 1.0)? * 0.5)?)?.contiguous()
}

/// With `t = tanh(u)` and `u = √(2/π) (g + 0.044715 g³)`, the derivative is `(1 + t) / 2 + g (1 - t²) u' / 2`.
fn backward_plain(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<[Candle; 2]> {
    let [gate, up, dy] = [gate, up, dy].map(Tensor::to_candle_f32);
    let (gate, up, dy) = (gate?, up?, dy?);
    let root = (2.0 / std::f64::consts::PI).sqrt();
    let square = gate.sqr()?;
    let inner = (&gate * ((&square * 0.044_715)? + 1.0)?)?;
    let tanh = (inner * root)?.tanh()?;
    let share = ((&tanh + 1.0)? * 0.5)?;
    let d_inner = (((square * (3.0 * 0.044_715))? + 1.0)? * (0.5 * root))?;
    let bend = ((tanh.sqr()?.neg()? + 1.0)? * d_inner)?;
    let d_up = (&dy * (&gate * &share)?)?;
    let d_gate = ((dy * up)? * (share + (gate * bend)?)?)?;
    Ok([d_gate, d_up])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        // Of a single gate far below 0 the definition by tanh leaves few digits.
        for shape in [[2, 9], [3, 17], [130, 255]] {
            let (gate, up) = ((uniform("gate", &shape) * 5.0).unwrap(), uniform("up", &shape));
            let dy = uniform("dy", &shape);
            let product = |inputs: &[Candle]| (gelu(&inputs[0]).unwrap() * &inputs[1]).unwrap();
            let want = product(&[gate.clone(), up.clone()]);
            let oracle = autograd(&[&gate, &up], &dy, product);
            let check = || {
                let inputs = || [tensor(&gate), tensor(&up)];
                assert_close(&GeGlu.forward(&inputs()).unwrap(), &want, 1e-6, "forward");
                let ([d_gate, d_up], product) = GeGlu.backward(inputs(), tensor(&dy)).unwrap();
                assert_close(&d_gate, &oracle[0], 1e-5, "gate");
                assert_close(&d_up, &oracle[1], 1e-5, "up");
                assert_close(&product, &want, 1e-6, "product");
            };
            check();
            with_plain_ops(check);
        }
    }
}
