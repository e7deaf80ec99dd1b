//! LayerNorm (Ba et al. 2016, arXiv:1607.06450): `y = (x - mean) / sqrt(variance + eps) · w + b`.

use candle_core::{D, DType, Result, Tensor};

use super::{
    host::{self, for_format, values},
    param::Param,
};
use crate::kernels::layer_norm;

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
        if !host::has_kernels(x.device()) {
            return self.forward_plain(x);
        }
        let (weight, bias) = (self.weight.f32()?, self.bias.f32()?);
        for_format!(x.dtype(), E => {
            let (values, weight, bias) = (values::<E>(x)?, values::<f32>(&weight)?, values::<f32>(&bias)?);
            host::tensor(x.shape(), |out: &mut [E]| {
                layer_norm::forward(&values, &weight, &bias, self.eps as f32, out);
            })
        })
    }

    /// The gradient of the input from the output's, float32, in its memory, which must be nobody else's. Adds the
    /// gradients of weight and bias where they are trained.
    pub fn backward(&mut self, x: &Tensor, dy: Tensor) -> Result<Tensor> {
        if self.weight.trainable {
            self.accumulate(x, &dy)?;
        }
        if !host::has_kernels(x.device()) {
            return self.backward_plain(x, &dy);
        }
        let weight = self.weight.f32()?;
        for_format!(x.dtype(), E => {
            let (values, weight) = (values::<E>(x)?, values::<f32>(&weight)?);
            host::change(&dy, |dy: &mut [f32]| {
                layer_norm::backward_in_place(&values, &weight, self.eps as f32, dy);
            })
        })?;
        Ok(dy)
    }

    /// What is trained of this layer, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let params = [&mut self.weight, &mut self.bias];
        params.into_iter().filter(|param| param.trainable).collect()
    }

    fn accumulate(&mut self, x: &Tensor, dy: &Tensor) -> Result<()> {
        let cols = x.dim(1)?;
        let [weight, bias] = if host::has_kernels(x.device()) {
            let sums = for_format!(x.dtype(), E => {
                let (values, dy) = (values::<E>(x)?, values::<f32>(dy)?);
                Ok::<_, candle_core::Error>(layer_norm::parameter_gradients(&values, &dy, cols, self.eps as f32))
            })?;
            // Of their own: a copy of a view would hold all that it is a view of.
            let (weight, bias) = sums.split_at(cols);
            [weight, bias].map(|sums| Tensor::from_slice(sums, cols, x.device()))
        } else {
            let (normed, _) = normalise(x, self.eps)?;
            [(dy * normed)?.sum(0), dy.sum(0)]
        };
        self.weight.accumulate(weight?)?;
        self.bias.accumulate(bias?)
    }

    fn forward_plain(&self, x: &Tensor) -> Result<Tensor> {
        let (normed, _) = normalise(x, self.eps)?;
        let scaled = normed.broadcast_mul(&self.weight.f32()?)?;
        scaled.broadcast_add(&self.bias.f32()?)?.to_dtype(x.dtype())
    }

    fn backward_plain(&self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        let (normed, inverse) = normalise(x, self.eps)?;
        let dn = dy.broadcast_mul(&self.weight.f32()?)?;
        let along = (&dn * &normed)?.mean_keepdim(D::Minus1)?;
        let centred = dn.broadcast_sub(&dn.mean_keepdim(D::Minus1)?)?;
        (centred - normed.broadcast_mul(&along)?)?.broadcast_mul(&inverse)
    }
}

/// `(x - mean) / deviation` and `1 / deviation`, float32.
fn normalise(x: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    let x = x.to_dtype(DType::F32)?;
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let inverse = (centred.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?.recip()?;
    Ok((centred.broadcast_mul(&inverse)?, inverse))
}

#[cfg(test)]
mod tests {
    use candle_core::{CpuStorage, Storage};

    use super::*;
    use crate::nn::testing::{assert_close, autograd, layer_norm, uniform, with_plain_ops};

    fn elements_held(tensor: &Tensor) -> usize {
        match &*tensor.storage_and_layout().0 {
            Storage::Cpu(CpuStorage::F32(values)) => values.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (rows, cols) in [(1, 3), (3, 15), (5, 33), (130, 64), (2, 577)] {
            let mut norm = layer_norm("norm", cols, true);
            let (x, dy) = (uniform("x", &[rows, cols]), uniform("dy", &[rows, cols]));
            let (w, b) = (norm.weight.value.clone(), norm.bias.value.clone());
            let want = norm.forward_plain(&x).unwrap();
            assert_close(&norm.forward(&x).unwrap(), &want, 1e-5, "forward");
            let oracle = autograd(&[&x, &w, &b], &dy, |inputs| {
                let (normed, _) = normalise(&inputs[0], norm.eps).unwrap();
                let scaled = normed.broadcast_mul(&inputs[1]).unwrap();
                scaled.broadcast_add(&inputs[2]).unwrap()
            });
            let mut check = || {
                let dx = norm.backward(&x, dy.copy().unwrap()).unwrap();
                assert_close(&dx, &oracle[0], 5e-5, "dx");
                for (param, want) in norm.trainable().into_iter().zip(&oracle[1..]) {
                    let gradient = param.gradient().unwrap();
                    assert_close(gradient, want, 2e-5, &param.name);
                    assert_eq!(elements_held(gradient), cols, "nothing beside it");
                    param.release_gradient();
                }
            };
            check();
            with_plain_ops(check);
        }
    }
}
