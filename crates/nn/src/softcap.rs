//! Soft caps of scores and logits that are held: `cap · tanh(x / cap)`.

use candle_core::Result;
use kernels::softcap::{self, SoftCap};

use super::tensor::{Tensor, for_format};

/// The capped values, on the CPU in the memory of `x`; `x` itself without a cap.
pub(super) fn forward(mut x: Tensor, cap: Option<SoftCap>) -> Result<Tensor> {
    let Some(cap) = cap else { return Ok(x) };
    if !x.has_kernels() {
        let capped = ((x.to_candle_f32()? / f64::from(cap.0))?.tanh()? * f64::from(cap.0))?;
        return Tensor::from_candle(capped.to_dtype(x.dtype())?);
    }
    if !memory::is_dry_run() {
        for_format!(x.dtype(), E => {
            softcap::forward_in_place(x.values_mut::<E>()?, cap);
            Ok(())
        })?;
    }
    Ok(x)
}

/// The gradient of the values from that of the capped ones, in its dtype and on the CPU in its memory.
pub(super) fn backward(capped: &Tensor, mut dy: Tensor, cap: SoftCap) -> Result<Tensor> {
    if !capped.has_kernels() {
        let tanh = (capped.to_candle_f32()? / f64::from(cap.0))?;
        let dx = (dy.to_candle_f32()? * (tanh.sqr()?.neg()? + 1.0)?)?;
        return Tensor::from_candle(dx.to_dtype(dy.dtype())?);
    }
    if !memory::is_dry_run() {
        for_format!(capped.dtype(), E => for_format!(dy.dtype(), G => {
            softcap::backward_in_place(capped.values::<E>()?, dy.values_mut::<G>()?, cap);
            Ok(())
        }))?;
    }
    Ok(dy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        let (x, dy) = ((uniform("x", &[7, 33]) * 5.0).unwrap(), uniform("dy", &[7, 33]));
        let cap = |x: &candle_core::Tensor| ((x / 2.0).unwrap().tanh().unwrap() * 2.0).unwrap();
        let oracle = autograd(&[&x], &dy, |inputs| cap(&inputs[0]));
        let check = || {
            let capped = forward(tensor(&x), Some(SoftCap(2.0))).unwrap();
            assert_close(&capped, &cap(&x), 1e-6, "forward");
            let dx = backward(&capped, tensor(&dy), SoftCap(2.0)).unwrap();
            assert_close(&dx, &oracle[0], 1e-5, "dx");
        };
        check();
        with_plain_ops(check);
    }
}
