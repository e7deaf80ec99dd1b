//! RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467): `y = x / sqrt(mean(x²) + eps) · w`, or `· (1 + w)`.

use candle_core::{D, DType, Result};
use kernels::norm;
use memory::{Buffer, tiers::Slot};

use super::{
    convert::Converted,
    param::Param,
    tensor::{Tensor, for_format},
};

/// A root mean square norm over the features.
#[derive(Debug)]
pub struct RmsNorm {
    /// Factors, `[features]`.
    pub weight: Param,
    /// Added to the weight: 1 in models whose weights begin with zeros, as Gemma's, else 0.
    pub offset: f32,
    /// Added to the mean square.
    pub eps: f64,
    /// The format of the output, if it is not the input's.
    pub output: Option<DType>,
}

impl RmsNorm {
    /// `[n, k · features]` in the output's dtype: each part of `features` elements is normalised by itself. Keeps
    /// nothing: the backward pass is given `x` again.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if !x.has_kernels() {
            return self.forward_plain(x);
        }
        let weight = self.factors()?;
        for_format!(x.dtype(), E => for_format!(self.output.unwrap_or(x.dtype()), O => {
            let (values, weight) = (x.values::<E>()?, weight.values::<f32>()?);
            Ok(Tensor::written(x.shape(), |out: &mut [O]| norm::forward(values, weight, self.eps as f32, out)))
        }))
    }

    /// The output added to `residual`, of the shape of `x`, in the residual's dtype.
    pub fn forward_onto(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        if !x.has_kernels() {
            let y = (self.forward_f32(x)? + residual.to_candle_f32()?)?;
            return Tensor::from_candle(y.to_dtype(residual.dtype())?);
        }
        let weight = self.factors()?;
        for_format!(x.dtype(), E => for_format!(residual.dtype(), O => {
            let (values, weight, residual) = (x.values::<E>()?, weight.values::<f32>()?, residual.values::<O>()?);
            Ok(Tensor::written(x.shape(), |out: &mut [O]| {
                norm::forward_onto(values, weight, self.eps as f32, residual, out);
            }))
        }))
    }

    /// The gradient of the input from the output's, added to `residual`, the gradient that goes past the norm, in its
    /// memory; all float32. Adds the weight's gradient if it is trained.
    pub fn backward(&mut self, x: &Tensor, dy: &Tensor, mut residual: Tensor) -> Result<Tensor> {
        if self.weight.trainable {
            let gradient = self.weight_gradient(x, dy)?;
            self.weight.accumulate(gradient)?;
        }
        if !x.has_kernels() {
            return Tensor::from_candle((residual.to_candle()? + self.backward_plain(x, dy)?)?);
        }
        let weight = self.factors()?;
        if !memory::is_dry_run() {
            for_format!(x.dtype(), E => {
                let (values, weight, dy) = (x.values::<E>()?, weight.values::<f32>()?, dy.values::<f32>()?);
                norm::backward(values, weight, self.eps as f32, dy, residual.values_mut()?);
                Ok(())
            })?;
        }
        Ok(residual)
    }

    /// The gradient of the input alone, in its dtype, from the output's, float32. Adds the weight's gradient if it is
    /// trained.
    pub fn gradient(&mut self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        if self.weight.trainable {
            let gradient = self.weight_gradient(x, dy)?;
            self.weight.accumulate(gradient)?;
        }
        if !x.has_kernels() {
            return Tensor::from_candle(self.backward_plain(x, dy)?.to_dtype(x.dtype())?);
        }
        let weight = self.factors()?;
        for_format!(x.dtype(), E => {
            let (values, weight, dy) = (x.values::<E>()?, weight.values::<f32>()?, dy.values::<f32>()?);
            Ok(Tensor::written(x.shape(), |dx: &mut [E]| {
                norm::gradient(values, weight, self.eps as f32, dy, dx);
            }))
        })
    }

    /// The gradient of `[n, k · features]` from that of the output, in its memory and dtype, which is that of `x`. Adds
    /// the weight's gradient if it is trained.
    pub fn backward_parts(&mut self, x: &Tensor, mut dy: Tensor) -> Result<Tensor> {
        if self.weight.trainable {
            let gradient = self.weight_gradient(x, &dy)?;
            self.weight.accumulate(gradient)?;
        }
        if !x.has_kernels() {
            let dx = self.backward_plain(x, &dy)?.to_dtype(dy.dtype())?;
            return Tensor::from_candle(dx);
        }
        let weight = self.factors()?;
        if !memory::is_dry_run() {
            for_format!(x.dtype(), E => {
                let (values, weight) = (x.values::<E>()?, weight.values::<f32>()?);
                norm::backward_in_place(values, weight, self.eps as f32, dy.values_mut::<E>()?);
                Ok(())
            })?;
        }
        Ok(dy)
    }

    /// True if the weight is trained.
    pub(super) fn is_trained(&self) -> bool {
        self.weight.trainable
    }

    /// What is trained of this layer.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.weight.push_trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.weight.push_frozen(slots);
    }

    /// What the features are multiplied by, float32.
    pub(super) fn factors(&self) -> Result<Converted<'_>> {
        let wide = self.weight.f32()?;
        if self.offset == 0.0 {
            return Ok(wide);
        }
        if !wide.has_kernels() {
            let factors = (wide.to_candle()? + f64::from(self.offset))?;
            return Ok(Converted::Copy(Tensor::from_candle(factors)?));
        }
        let values = wide.values::<f32>()?;
        let factors = Tensor::written(wide.shape(), |out: &mut [f32]| {
            for (factor, value) in out.iter_mut().zip(values) {
                *factor = value + self.offset;
            }
        });
        Ok(Converted::Copy(factors))
    }

    fn weight_gradient(&self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        if !x.has_kernels() {
            let (normed, _) = self.normalise(x)?;
            let dy = dy.to_candle_f32()?.reshape(normed.shape())?;
            return Tensor::from_candle((dy * normed)?.sum(0)?);
        }
        let features = self.weight.value.shape().len();
        let mut inverses = Buffer::<f32>::unwritten(x.shape().len() / features);
        for_format!(x.dtype(), E => for_format!(dy.dtype(), D => {
            let (values, dy) = (x.values::<E>()?, dy.values::<D>()?);
            Ok(Tensor::written(features, |out: &mut [f32]| {
                norm::weight_gradient(values, dy, self.eps as f32, inverses.values_mut(), out);
            }))
        }))
    }

    fn forward_plain(&self, x: &Tensor) -> Result<Tensor> {
        Tensor::from_candle(self.forward_f32(x)?.to_dtype(self.output.unwrap_or(x.dtype()))?)
    }

    fn forward_f32(&self, x: &Tensor) -> Result<candle_core::Tensor> {
        let (normed, _) = self.normalise(x)?;
        normed
            .broadcast_mul(&self.factors()?.to_candle_f32()?)?
            .reshape(x.dims())
    }

    fn backward_plain(&self, x: &Tensor, dy: &Tensor) -> Result<candle_core::Tensor> {
        let (normed, inverse) = self.normalise(x)?;
        let dy = dy.to_candle_f32()?.reshape(normed.shape())?;
        let dn = dy.broadcast_mul(&self.factors()?.to_candle_f32()?)?;
        let along = (&dn * &normed)?.mean_keepdim(D::Minus1)?;
        let dx = (dn - normed.broadcast_mul(&along)?)?.broadcast_mul(&inverse)?;
        dx.reshape(x.dims())
    }

    /// `x / rms(x)` and `1 / rms(x)`, float32, a row for each part.
    fn normalise(&self, x: &Tensor) -> Result<(candle_core::Tensor, candle_core::Tensor)> {
        let features = self.weight.value.shape().len();
        let x = x.to_candle_f32()?.reshape(((), features))?;
        let inverse = (x.sqr()?.mean_keepdim(D::Minus1)? + self.eps)?.sqrt()?.recip()?;
        Ok((x.broadcast_mul(&inverse)?, inverse))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor as Candle};

    use super::*;
    use crate::testing::{
        assert_close, assert_gradients, autograd, elements, param, rms_norm, take_gradients, tensor, uniform,
        uniform_tensor, values_of, with_plain_ops,
    };

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (rows, cols) in [(1, 3), (3, 15), (5, 33), (130, 64), (2, 577)] {
            let mut norm = rms_norm("w", cols, true);
            let (x, dy) = (uniform("x", &[rows, cols]), uniform("dy", &[rows, cols]));
            let w = values_of(&mut norm).remove(0);
            let definition = |inputs: &[Candle]| {
                let mean = inputs[0].sqr().unwrap().mean_keepdim(1).unwrap();
                let normed = inputs[0]
                    .broadcast_div(&(mean + 1e-5).unwrap().sqrt().unwrap())
                    .unwrap();
                normed.broadcast_mul(&inputs[1]).unwrap()
            };
            let want = definition(&[x.clone(), w.clone()]);
            let oracle = autograd(&[&x, &w], &dy, definition);
            let residual = uniform("residual", &[rows, cols]);
            let sum = (&residual + &oracle[0]).unwrap();
            let mut check = || {
                let (x, dy) = (tensor(&x), tensor(&dy));
                assert_close(&norm.forward(&x).unwrap(), &want, 1e-5, "forward");
                let dx = norm.backward(&x, &dy, tensor(&residual)).unwrap();
                assert_close(&dx, &sum, 2e-5, "dx");
                assert_gradients(&mut norm, &oracle[1..], 2e-5);
            };
            check();
            with_plain_ops(check);
        }
    }

    /// Weights that begin with zeros, and the sum with a residual, against norms without either.
    #[test]
    fn an_offset_and_a_residual_are_added() {
        let (x, dy) = (uniform("x", &[5, 33]), uniform("dy", &[5, 33]));
        let residual = uniform("residual", &[5, 33]);
        let mut norm = rms_norm("w", 33, true);
        let mut shifted = RmsNorm {
            weight: param("w", &(uniform("w", &[33]) - 1.0).unwrap(), true),
            offset: 1.0,
            ..rms_norm("w", 33, true)
        };
        let want = (norm.forward(&tensor(&x)).unwrap().to_candle().unwrap() + &residual).unwrap();
        let d_want = norm.backward(&tensor(&x), &tensor(&dy), tensor(&residual)).unwrap();
        let d_weight = take_gradients(&mut norm);
        let mut check = || {
            let y = shifted.forward_onto(&tensor(&x), &tensor(&residual)).unwrap();
            assert_close(&y, &want, 1e-5, "forward");
            let dx = shifted.backward(&tensor(&x), &tensor(&dy), tensor(&residual)).unwrap();
            assert_close(&dx, &d_want, 1e-5, "dx");
            assert_gradients(&mut shifted, &d_weight, 1e-5);
        };
        check();
        with_plain_ops(check);
    }

    /// Heads, which share their weight.
    #[test]
    fn parts_of_a_row_are_normalised_by_themselves() {
        for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::BF16, 1e-2)] {
            let (rows, parts, features) = (5, 3, 10);
            let mut norm = rms_norm("w", features, true);
            let x = uniform("x", &[rows, parts * features]).to_dtype(dtype).unwrap();
            let dy = uniform("dy", &[rows, parts * features]).to_dtype(dtype).unwrap();
            let split = |of: &Candle| of.reshape((rows * parts, features)).unwrap();
            let zeros = Candle::zeros((rows * parts, features), DType::F32, &Device::Cpu).unwrap();
            let alone = norm.forward(&tensor(&split(&x))).unwrap();
            let wide = split(&dy).to_dtype(DType::F32).unwrap();
            let d_alone = norm
                .backward(&tensor(&split(&x)), &tensor(&wide), tensor(&zeros))
                .unwrap();
            let d_weight = take_gradients(&mut norm);
            let mut check = || {
                let y = norm.forward(&tensor(&x)).unwrap();
                assert_eq!(y.dims(), x.dims());
                assert_close(&split(&y.to_candle().unwrap()), &alone, tolerance, "forward");
                let dx = norm.backward_parts(&tensor(&x), tensor(&dy)).unwrap();
                assert_eq!(dx.dtype(), dtype);
                assert_close(&split(&dx.to_candle().unwrap()), &d_alone, tolerance, "dx");
                assert_gradients(&mut norm, &d_weight, 2e-5);
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn weight_gradients_of_16_bit_rows_agree_with_plain_ops() {
        for (dtype, rows, cols) in [(DType::F16, 70, 129), (DType::BF16, 33, 65), (DType::BF16, 1, 1)] {
            let mut norm = rms_norm("w", cols, true);
            let (x, dy) = (
                uniform("x", &[rows, cols]).to_dtype(dtype).unwrap(),
                uniform_tensor("dy", &[rows, cols]),
            );
            let x = tensor(&x);
            let gradient = || norm.weight_gradient(&x, &dy).unwrap();
            let (kernel, plain) = (gradient(), with_plain_ops(gradient));
            assert_close(&kernel, &plain, 1e-5, "weight");
            norm.weight.accumulate(kernel).unwrap();
            assert_eq!(norm.weight.gradient().unwrap().len(), cols);
        }
    }

    #[test]
    fn bfloat16_is_rounded_once() {
        let x = uniform("x", &[4, 40]).to_dtype(DType::BF16).unwrap();
        let norm = rms_norm("w", 40, false);
        let wide = norm.forward(&tensor(&x.to_dtype(DType::F32).unwrap())).unwrap();
        let want = wide.to_candle().unwrap().to_dtype(DType::BF16).unwrap();
        assert_close(&norm.forward(&tensor(&x)).unwrap(), &want, 0.0, "forward");
    }

    #[test]
    fn the_output_may_have_another_format() {
        let (x, mut norm) = (uniform_tensor("x", &[4, 40]), rms_norm("w", 40, false));
        let wide = norm.forward(&x).unwrap().to_candle().unwrap();
        for dtype in [DType::BF16, DType::F16] {
            norm.output = Some(dtype);
            for y in [norm.forward(&x).unwrap(), with_plain_ops(|| norm.forward(&x).unwrap())] {
                assert_eq!(y.dtype(), dtype);
                assert_close(&y, &wide.to_dtype(dtype).unwrap(), 4e-3, "forward");
            }
        }
    }

    #[test]
    fn not_a_number_stays_in_its_row() {
        let x = Candle::new(&[[1f32, f32::NAN], [1.0, 2.0]], &Device::Cpu).unwrap();
        let y = elements(&rms_norm("w", 2, false).forward(&tensor(&x)).unwrap());
        assert!(y[..2].iter().all(|value| value.is_nan()) && y[2..].iter().all(|value| value.is_finite()));
    }
}
