//! An encoder's feed-forward layer: `output(gelu(intermediate(x)))`.

use candle_core::{DType, Result, Tensor};

use super::{
    Pass,
    affine::{self, Affine},
    block::within,
    dropout::Dropout,
    encoder_names::Names,
    host::{self, for_format, values},
    param::Param,
};
use crate::{
    kernels::gelu,
    memory::{self, Category},
};

/// A feed-forward layer.
#[derive(Debug)]
pub struct FeedForward {
    /// The family's names of the layers.
    pub names: &'static Names,
    /// Before GELU, `[intermediate, hidden]`.
    pub intermediate: Affine,
    /// After GELU, `[hidden, intermediate]`.
    pub output: Affine,
    /// On the output, before the residual is added.
    pub dropout: Dropout,
}

/// `intermediate(x)`, `[n, intermediate]` in the hidden dtype.
#[derive(Debug)]
pub struct Saved(Tensor);

impl FeedForward {
    /// The output added to `x`, in the hidden dtype.
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<(Tensor, Saved)> {
        let (inner, activated) = within(self.names.intermediate, || {
            let [inner] = affine::forward([&self.intermediate], x, pass)?;
            memory::label(&inner, Category::Activation);
            let activated = activate(&inner)?;
            Ok::<_, candle_core::Error>((inner, activated))
        })?;
        let y = within(self.names.output, || {
            add_output(&self.output, &self.dropout, &activated, x, pass)
        })?;
        Ok((y, Saved(inner)))
    }

    /// The gradient of `x`, float32, from that of the output, float32, without what the residual adds. Takes what the
    /// forward pass saved.
    pub fn backward(&mut self, x: &Tensor, saved: Saved, dy: &Tensor, pass: &Pass) -> Result<Tensor> {
        let d_inner = within(self.names.output, || {
            let dy = self.dropout.backward(dy, x.dtype(), pass)?;
            let (d_product, ranks) = affine::input_gradient([&self.output], [&dy], pass, dy.dtype())?;
            let (d_inner, product) = activate_backward(saved.0, d_product)?;
            affine::accumulate([&mut self.output], &product, [&dy], ranks, pass)?;
            Ok::<_, candle_core::Error>(d_inner)
        })?;
        within(self.names.intermediate, || {
            let (dx, ranks) = affine::input_gradient([&self.intermediate], [&d_inner], pass, DType::F32)?;
            affine::accumulate([&mut self.intermediate], x, [&d_inner], ranks, pass)?;
            Ok(dx)
        })
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = self.intermediate.trainable();
        params.extend(self.output.trainable());
        params
    }
}

/// A layer's output, with its dropped elements, added to `residual`.
pub(super) fn add_output(
    layer: &Affine,
    dropout: &Dropout,
    x: &Tensor,
    residual: &Tensor,
    pass: &Pass,
) -> Result<Tensor> {
    if dropout.masks(pass).is_none() {
        return layer.forward_onto(x, residual, pass);
    }
    let [y] = affine::forward([layer], x, pass)?;
    dropout.forward_onto(y, residual, pass)
}

/// `gelu(x)`, in the dtype of `x`.
fn activate(x: &Tensor) -> Result<Tensor> {
    if !host::has_kernels(x.device()) {
        return x.to_dtype(DType::F32)?.gelu_erf()?.to_dtype(x.dtype());
    }
    for_format!(x.dtype(), E => {
        let x_values = values::<E>(x)?;
        host::tensor(x.shape(), |out: &mut [E]| gelu::forward(&x_values, out))
    })
}

/// The gradient of `x` from that of `gelu(x)`, and `gelu(x)` again, in the dtype of `x`: in the memory of the two operands,
/// which must be nobody else's.
fn activate_backward(x: Tensor, dy: Tensor) -> Result<(Tensor, Tensor)> {
    if !host::has_kernels(x.device()) {
        let (product, dx) = (activate(&x)?, activate_backward_plain(&x, &dy)?);
        return Ok((dx.to_dtype(x.dtype())?, product));
    }
    for_format!(x.dtype(), E => {
        host::change(&x, |x: &mut [E]| host::change(&dy, |dy: &mut [E]| gelu::backward_in_place(x, dy)))?
    })?;
    Ok((x, dy))
}

/// `gelu'(x) = Φ(x) + x φ(x)` with the normal distribution and its density.
fn activate_backward_plain(x: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let x = x.to_dtype(DType::F32)?;
    let share = (((&x / std::f64::consts::SQRT_2)?.erf()? + 1.0)? * 0.5)?;
    let density = ((x.sqr()? * -0.5)?.exp()? / (2.0 * std::f64::consts::PI).sqrt())?;
    dy.to_dtype(DType::F32)? * (share + (x * density)?)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, autograd, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for shape in [[1, 1], [3, 17], [130, 255]] {
            let (x, dy) = ((uniform("x", &shape) * 5.0).unwrap(), uniform("dy", &shape));
            let want = x.gelu_erf().unwrap();
            assert_close(&activate(&x).unwrap(), &want, 1e-6, "forward");
            let oracle = autograd(&[&x], &dy, |inputs| inputs[0].gelu_erf().unwrap());
            let check = || {
                let (dx, product) = activate_backward(x.copy().unwrap(), dy.copy().unwrap()).unwrap();
                assert_close(&dx, &oracle[0], 1e-5, "dx");
                assert_close(&product, &want, 1e-6, "product");
            };
            check();
            with_plain_ops(check);
        }
    }
}
