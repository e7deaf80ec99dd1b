//! What gated activations share (Shazeer 2020, arXiv:2002.05202): `f(gate) · up`.

use std::fmt::Debug;

use candle_core::{Result, Tensor as Candle};
use kernels::{
    columns,
    gated::{self, Gate},
};
use memory::Buffer;

use super::interface::Activation;
use crate::tensor::{Tensor, for_format};

/// A gated activation: the function of the gate, for the kernel and in candle's ops.
pub(super) trait Gated: Debug + Sync {
    /// The kernel's function.
    type Kernel: Gate;

    /// The function of a float32 gate.
    fn value(gate: &Candle) -> Result<Candle>;

    /// The function and its derivative.
    fn value_and_slope(gate: &Candle) -> Result<[Candle; 2]>;
}

impl<G: Gated> Activation<2> for G {
    fn forward(&self, [gate, up]: &[Tensor; 2]) -> Result<Tensor> {
        if !gate.has_kernels() {
            return forward_plain::<G>(gate, up);
        }
        for_format!(gate.dtype(), E => {
            let (g, u) = (gate.values::<E>()?, up.values::<E>()?);
            Ok(Tensor::written(gate.shape(), |out: &mut [E]| gated::forward::<G::Kernel, E>(g, u, out)))
        })
    }

    fn backward(&self, [mut gate, mut up]: [Tensor; 2], mut dy: Tensor) -> Result<([Tensor; 2], Tensor)> {
        if !gate.has_kernels() {
            let product = forward_plain::<G>(&gate, &up)?;
            let dtype = gate.dtype();
            let [d_gate, d_up] = backward_plain::<G>(&gate, &up, &dy)?.map(|d| Tensor::from_candle(d.to_dtype(dtype)?));
            return Ok(([d_gate?, d_up?], product));
        }
        if !memory::is_dry_run() {
            for_format!(gate.dtype(), E => {
                gated::backward_in_place::<G::Kernel, E>(gate.values_mut::<E>()?, up.values_mut()?, dy.values_mut()?);
                Ok(())
            })?;
        }
        Ok(([gate, up], dy))
    }

    fn column_dots(&self, [gate, up]: &[Tensor; 2], dy: &Tensor) -> Result<Option<Tensor>> {
        if !gate.has_kernels() {
            return Ok(None);
        }
        let (rows, width) = (gate.rows(), 2 * gate.cols());
        let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(rows, width));
        for_format!(gate.dtype(), E => {
            let (gate, up, dy) = (gate.values::<E>()?, up.values::<E>()?, dy.values::<E>()?);
            Ok(Some(Tensor::written(width, |out: &mut [f32]| {
                gated::column_dots::<G::Kernel, E>(gate, up, dy, scratch.values_mut(), out);
            })))
        })
    }
}

fn forward_plain<G: Gated>(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let y = (G::value(&gate.to_candle_f32()?)? * up.to_candle_f32()?)?;
    Tensor::from_candle(y.to_dtype(gate.dtype())?)
}

fn backward_plain<G: Gated>(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<[Candle; 2]> {
    let [gate, up, dy] = [gate, up, dy].map(Tensor::to_candle_f32);
    let (up, dy) = (up?, dy?);
    let [value, slope] = G::value_and_slope(&gate?)?;
    let d_up = (&dy * value)?;
    let d_gate = ((dy * up)? * slope)?;
    Ok([d_gate, d_up])
}

/// Compares kernel and plain ops with candle's autograd over `value`, for gates up to `range`.
#[cfg(test)]
pub(super) fn agrees_with_autograd<G: Gated>(activation: &G, shapes: &[[usize; 2]], range: f64) {
    use crate::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

    for shape in shapes {
        let (gate, up) = ((uniform("gate", shape) * range).unwrap(), uniform("up", shape));
        let dy = uniform("dy", shape);
        let product = |inputs: &[Candle]| (G::value(&inputs[0]).unwrap() * &inputs[1]).unwrap();
        let want = product(&[gate.clone(), up.clone()]);
        let oracle = autograd(&[&gate, &up], &dy, product);
        let check = || {
            let inputs = || [tensor(&gate), tensor(&up)];
            assert_close(&activation.forward(&inputs()).unwrap(), &want, 1e-6, "forward");
            let ([d_gate, d_up], product) = activation.backward(inputs(), tensor(&dy)).unwrap();
            assert_close(&d_gate, &oracle[0], 1e-5, "gate");
            assert_close(&d_up, &oracle[1], 1e-5, "up");
            assert_close(&product, &want, 1e-6, "product");
        };
        check();
        with_plain_ops(check);
    }
}
