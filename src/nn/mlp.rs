//! SwiGLU (Shazeer 2020, arXiv:2002.05202): `down(silu(gate(x)) · up(x))`.

use candle_core::{DType, Result, Tensor};

use super::{
    Pass,
    host::{self, for_format, values},
    linear::{self, Linear},
    param::Param,
};
use crate::{
    kernels::swiglu,
    memory::{self, Category},
};

/// A decoder's MLP, with Hugging Face's names.
#[derive(Debug)]
pub struct Mlp {
    /// Projection of the gate, `[intermediate, hidden]`.
    pub gate_proj: Linear,
    /// Projection of the gated values, `[intermediate, hidden]`.
    pub up_proj: Linear,
    /// Projection of the output, `[hidden, intermediate]`.
    pub down_proj: Linear,
}

/// `gate(x)` and `up(x)`, each `[n, intermediate]` in the hidden dtype.
#[derive(Debug)]
pub struct Saved {
    gate: Tensor,
    up: Tensor,
}

impl Mlp {
    /// Everything but the product with `down_proj`, which [`Self::output`] takes.
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Saved> {
        let [gate, up] = linear::forward([&self.gate_proj, &self.up_proj], x, pass)?;
        for (name, output) in [("gate_proj", &gate), ("up_proj", &up)] {
            let _part = memory::part(name);
            memory::label(output, Category::Activation);
        }
        Ok(Saved { gate, up })
    }

    /// The output added to `residual`, in the hidden dtype.
    pub fn output(&self, saved: &Saved, residual: &Tensor, pass: &Pass) -> Result<Tensor> {
        self.down_proj
            .forward_onto(&activate(&saved.gate, &saved.up)?, residual, pass)
    }

    /// The gradient of `x`, float32, from that of the output, in the hidden dtype. Takes what the forward pass saved.
    pub fn backward(&mut self, x: &Tensor, saved: Saved, dy: &Tensor, pass: &Pass) -> Result<Tensor> {
        let (d_product, ranks) = linear::input_gradient([&self.down_proj], [dy], pass, dy.dtype())?;
        let (d_gate, d_up, product) = activate_backward(saved.gate, saved.up, d_product)?;
        linear::accumulate([&mut self.down_proj], &product, [dy], ranks, pass)?;
        drop(product);
        let dys = [&d_gate, &d_up];
        let (dx, ranks) = linear::input_gradient([&self.gate_proj, &self.up_proj], dys, pass, DType::F32)?;
        linear::accumulate([&mut self.gate_proj, &mut self.up_proj], x, dys, ranks, pass)?;
        Ok(dx)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        [&mut self.gate_proj, &mut self.up_proj, &mut self.down_proj]
            .into_iter()
            .flat_map(Linear::trainable)
            .collect()
    }
}

/// `silu(gate) · up`, in the dtype of `gate`.
fn activate(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if !host::has_kernels(gate.device()) {
        return activate_plain(gate, up);
    }
    for_format!(gate.dtype(), E => {
        let (g, u) = (values::<E>(gate)?, values::<E>(up)?);
        host::tensor(gate.shape(), |out: &mut [E]| swiglu::forward(&g, &u, out))
    })
}

/// The gradients of gate and up from that of their product, and the product again, all in the dtype of `gate`: in the
/// memory of the three operands, which must be nobody else's.
fn activate_backward(gate: Tensor, up: Tensor, dy: Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    if !host::has_kernels(gate.device()) {
        let product = activate_plain(&gate, &up)?;
        let (d_gate, d_up) = activate_backward_plain(&gate, &up, &dy)?;
        return Ok((d_gate.to_dtype(gate.dtype())?, d_up.to_dtype(gate.dtype())?, product));
    }
    for_format!(gate.dtype(), E => {
        host::change(&gate, |gate: &mut [E]| {
            host::change(&up, |up: &mut [E]| {
                host::change(&dy, |dy: &mut [E]| swiglu::backward_in_place(gate, up, dy))
            })
        })??
    })?;
    Ok((gate, up, dy))
}

fn activate_plain(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let dtype = gate.dtype();
    (gate.to_dtype(DType::F32)?.silu()? * up.to_dtype(DType::F32)?)?.to_dtype(dtype)
}

/// `silu'(g) = s(g) (1 + g (1 - s(g)))` with the logistic function s.
fn activate_backward_plain(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    let dy = dy.to_dtype(DType::F32)?;
    let gate = gate.to_dtype(DType::F32)?;
    let up = up.to_dtype(DType::F32)?;
    let sigmoid = ((gate.neg()?.exp()? + 1.0)?).recip()?;
    let silu = (&gate * &sigmoid)?;
    let d_up = (&dy * &silu)?;
    let slope = ((&silu - (&silu * &sigmoid)?)? + sigmoid)?;
    let d_gate = ((dy * up)? * slope)?;
    Ok((d_gate, d_up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, autograd, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for shape in [[1, 1], [3, 17], [130, 255]] {
            let (gate, up) = ((uniform("gate", &shape) * 8.0).unwrap(), uniform("up", &shape));
            let dy = uniform("dy", &shape);
            assert_close(
                &activate(&gate, &up).unwrap(),
                &activate_plain(&gate, &up).unwrap(),
                1e-6,
                "forward",
            );
            let oracle = autograd(&[&gate, &up], &dy, |inputs| {
                activate_plain(&inputs[0], &inputs[1]).unwrap()
            });
            let check = || {
                let (gate, up, dy) = (gate.copy().unwrap(), up.copy().unwrap(), dy.copy().unwrap());
                let want = activate_plain(&gate, &up).unwrap();
                let (d_gate, d_up, product) = activate_backward(gate, up, dy).unwrap();
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
        let gate = Tensor::new(&[[-200f32, 200.0]], &candle_core::Device::Cpu).unwrap();
        let one = gate.ones_like().unwrap();
        assert_eq!(activate(&gate, &one).unwrap().to_vec2::<f32>().unwrap(), [[0.0, 200.0]]);
        let (d_gate, ..) = activate_backward(gate, one.copy().unwrap(), one).unwrap();
        assert_eq!(d_gate.to_vec2::<f32>().unwrap(), [[0.0, 1.0]]);
    }
}
