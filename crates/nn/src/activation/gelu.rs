//! GELU (Hendrycks & Gimpel 2016, arXiv:1606.08415): `x Φ(x)` with the normal distribution.

use candle_core::{DType, Result};
use kernels::gelu;

use super::interface::Activation;
use crate::tensor::{Tensor, for_format};

/// GELU by the error function.
#[derive(Debug)]
pub struct Gelu;

impl Activation<1> for Gelu {
    fn forward(&self, [x]: &[Tensor; 1]) -> Result<Tensor> {
        if !x.has_kernels() {
            return Tensor::from_candle(x.to_candle_f32()?.gelu_erf()?.to_dtype(x.dtype())?);
        }
        for_format!(x.dtype(), E => {
            let values = x.values::<E>()?;
            Ok(Tensor::written(x.shape(), |out: &mut [E]| gelu::forward(values, out)))
        })
    }

    fn backward(&self, [mut x]: [Tensor; 1], mut dy: Tensor) -> Result<([Tensor; 1], Tensor)> {
        if !x.has_kernels() {
            let dx = backward_plain(&x, &dy)?;
            let y = self.forward(&[x])?;
            return Ok(([dx], y));
        }
        if !memory::is_dry_run() {
            for_format!(x.dtype(), E => {
                gelu::backward_in_place(x.values_mut::<E>()?, dy.values_mut()?);
                Ok(())
            })?;
        }
        Ok(([x], dy))
    }
}

/// `gelu'(x) = Φ(x) + x φ(x)` with the normal distribution and its density.
fn backward_plain(x: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let dtype = x.dtype();
    let x = x.to_candle()?.to_dtype(DType::F32)?;
    let share = (((&x / std::f64::consts::SQRT_2)?.erf()? + 1.0)? * 0.5)?;
    let density = ((x.sqr()? * -0.5)?.exp()? / (2.0 * std::f64::consts::PI).sqrt())?;
    let dx = (dy.to_candle_f32()? * (share + (x * density)?)?)?;
    Tensor::from_candle(dx.to_dtype(dtype)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for shape in [[1, 1], [3, 17], [130, 255]] {
            let (x, dy) = ((uniform("x", &shape) * 5.0).unwrap(), uniform("dy", &shape));
            let want = x.gelu_erf().unwrap();
            let oracle = autograd(&[&x], &dy, |inputs| inputs[0].gelu_erf().unwrap());
            let check = || {
                assert_close(&Gelu.forward(&[tensor(&x)]).unwrap(), &want, 1e-6, "forward");
                let ([dx], product) = Gelu.backward([tensor(&x)], tensor(&dy)).unwrap();
                assert_close(&dx, &oracle[0], 1e-5, "dx");
                assert_close(&product, &want, 1e-6, "product");
            };
            check();
            with_plain_ops(check);
        }
    }
}
