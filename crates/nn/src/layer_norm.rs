//! LayerNorm (Ba et al. 2016, arXiv:1607.06450): `y = (x - mean) / sqrt(variance + eps) · w + b`.

use candle_core::{D, DType, Result};
use kernels::{columns, layer_norm};
use memory::{Buffer, tiers::Slot};

use super::{
    param::Param,
    tensor::{Tensor, for_format},
};

/// A layer norm over the features.
#[derive(Debug)]
pub struct LayerNorm {
    /// Factors, `[features]`.
    pub weight: Param,
    /// Summands, `[features]`.
    pub bias: Param,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// `[n, features]` in the dtype of `x`. Keeps nothing: the backward pass is given `x` again.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if !x.has_kernels() {
            return self.forward_plain(x);
        }
        let (weight, bias) = (self.weight.f32()?, self.bias.f32()?);
        for_format!(x.dtype(), E => {
            let (values, weight, bias) = (x.values::<E>()?, weight.values::<f32>()?, bias.values::<f32>()?);
            Ok(Tensor::written(x.shape(), |out: &mut [E]| {
                layer_norm::forward(values, weight, bias, self.eps as f32, out);
            }))
        })
    }

    /// The gradient of the input from the output's, float32, in its memory. Adds the gradients of weight and bias if
    /// they are trained.
    pub fn backward(&mut self, x: &Tensor, mut dy: Tensor) -> Result<Tensor> {
        if self.is_trained() {
            let [weight, bias] = self.parameter_gradients(x, &dy)?;
            self.weight.accumulate(weight)?;
            self.bias.accumulate(bias)?;
        }
        if !x.has_kernels() {
            return self.backward_plain(x, &dy);
        }
        let weight = self.weight.f32()?;
        if !memory::is_dry_run() {
            for_format!(x.dtype(), E => {
                let (values, weight) = (x.values::<E>()?, weight.values::<f32>()?);
                layer_norm::backward_in_place(values, weight, self.eps as f32, dy.values_mut()?);
                Ok(())
            })?;
        }
        Ok(dy)
    }

    /// True if weight or bias are trained.
    pub(super) fn is_trained(&self) -> bool {
        self.weight.trainable || self.bias.trainable
    }

    /// What is trained of this layer, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.weight.push_trainable(params);
        self.bias.push_trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.weight.push_frozen(slots);
        self.bias.push_frozen(slots);
    }

    fn parameter_gradients(&self, x: &Tensor, dy: &Tensor) -> Result<[Tensor; 2]> {
        if !x.has_kernels() {
            let ((normed, _), dy) = (normalise(x, self.eps)?, dy.to_candle()?);
            return Ok([
                Tensor::from_candle((&dy * normed)?.sum(0)?)?,
                Tensor::from_candle(dy.sum(0)?)?,
            ]);
        }
        let cols = x.cols();
        let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(x.rows(), 2 * cols));
        let mut sums = Buffer::<f32>::unwritten(2 * cols);
        if !memory::is_dry_run() {
            for_format!(x.dtype(), E => {
                let (values, dy) = (x.values::<E>()?, dy.values::<f32>()?);
                let eps = self.eps as f32;
                layer_norm::parameter_gradients(values, dy, eps, scratch.values_mut(), sums.values_mut());
                Ok(())
            })?;
        }
        Ok([0, cols].map(|start| {
            Tensor::written(cols, |out: &mut [f32]| {
                out.copy_from_slice(&sums.values()[start..start + cols])
            })
        }))
    }

    fn forward_plain(&self, x: &Tensor) -> Result<Tensor> {
        let (normed, _) = normalise(x, self.eps)?;
        let scaled = normed.broadcast_mul(&self.weight.value.to_candle_f32()?)?;
        let y = scaled.broadcast_add(&self.bias.value.to_candle_f32()?)?;
        Tensor::from_candle(y.to_dtype(x.dtype())?)
    }

    fn backward_plain(&self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        let (normed, inverse) = normalise(x, self.eps)?;
        let dn = dy.to_candle()?.broadcast_mul(&self.weight.value.to_candle_f32()?)?;
        let along = (&dn * &normed)?.mean_keepdim(D::Minus1)?;
        let centred = dn.broadcast_sub(&dn.mean_keepdim(D::Minus1)?)?;
        Tensor::from_candle((centred - normed.broadcast_mul(&along)?)?.broadcast_mul(&inverse)?)
    }
}

/// `(x - mean) / deviation` and `1 / deviation`, float32.
fn normalise(x: &Tensor, eps: f64) -> Result<(candle_core::Tensor, candle_core::Tensor)> {
    let x = x.to_candle()?.to_dtype(DType::F32)?;
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let inverse = (centred.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?.recip()?;
    Ok((centred.broadcast_mul(&inverse)?, inverse))
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor as Candle;

    use crate::testing::{
        assert_close, assert_gradients, autograd, layer_norm, tensor, uniform, values_of, with_plain_ops,
    };

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (rows, cols) in [(1, 3), (3, 15), (5, 33), (130, 64), (2, 577)] {
            let mut norm = layer_norm("norm", cols, true);
            let (x, dy) = (uniform("x", &[rows, cols]), uniform("dy", &[rows, cols]));
            let definition = |inputs: &[Candle]| {
                let (x, w, b) = (&inputs[0], &inputs[1], &inputs[2]);
                let centred = x.broadcast_sub(&x.mean_keepdim(1).unwrap()).unwrap();
                let variance = centred.sqr().unwrap().mean_keepdim(1).unwrap();
                let deviation = (variance + 1e-5).unwrap().sqrt().unwrap();
                let scaled = centred.broadcast_div(&deviation).unwrap().broadcast_mul(w).unwrap();
                scaled.broadcast_add(b).unwrap()
            };
            let values = values_of(&mut norm);
            let want = definition(&[x.clone(), values[0].clone(), values[1].clone()]);
            let oracle = autograd(&[&x, &values[0], &values[1]], &dy, definition);
            let mut check = || {
                let x = tensor(&x);
                assert_close(&norm.forward(&x).unwrap(), &want, 1e-5, "forward");
                let dx = norm.backward(&x, tensor(&dy)).unwrap();
                assert_close(&dx, &oracle[0], 5e-5, "dx");
                assert_gradients(&mut norm, &oracle[1..], 2e-5);
            };
            check();
            with_plain_ops(check);
        }
    }
}
