//! Conversions of formats, and sums in place.

use std::ops::Deref;

use candle_core::{DType, Result};
use kernels::convert;

use super::tensor::{Tensor, for_format};

/// A tensor in another format: itself if it has that format, else a copy.
#[derive(Debug)]
pub enum Converted<'a> {
    Same(&'a Tensor),
    Copy(Tensor),
}

impl Deref for Converted<'_> {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        match self {
            Self::Same(tensor) => tensor,
            Self::Copy(tensor) => tensor,
        }
    }
}

impl Converted<'_> {
    /// The copy, if there is one.
    pub fn copy(self) -> Option<Tensor> {
        match self {
            Self::Same(_) => None,
            Self::Copy(tensor) => Some(tensor),
        }
    }
}

/// The tensor in float32.
pub(crate) fn widen(x: &Tensor) -> Result<Converted<'_>> {
    if x.dtype() == DType::F32 {
        return Ok(Converted::Same(x));
    }
    if !x.has_kernels() {
        return Ok(Converted::Copy(Tensor::from_candle(x.to_candle_f32()?)?));
    }
    for_format!(x.dtype(), E => {
        let from = x.values::<E>()?;
        Ok(Converted::Copy(Tensor::written(x.shape(), |to: &mut [f32]| convert::widen(from, to))))
    })
}

/// A float32 tensor rounded to `dtype`.
pub(crate) fn narrow(x: &Tensor, dtype: DType) -> Result<Converted<'_>> {
    if dtype == x.dtype() {
        return Ok(Converted::Same(x));
    }
    if !x.has_kernels() {
        return Ok(Converted::Copy(Tensor::from_candle(x.to_candle()?.to_dtype(dtype)?)?));
    }
    for_format!(dtype, E => {
        let from = x.values::<f32>()?;
        Ok(Converted::Copy(Tensor::written(x.shape(), |to: &mut [E]| convert::narrow(from, to))))
    })
}

/// A float32 tensor that nobody needs any more, rounded to `dtype`.
pub(crate) fn into_narrow(x: Tensor, dtype: DType) -> Result<Tensor> {
    let copy = narrow(&x, dtype)?.copy();
    Ok(copy.unwrap_or(x))
}

/// The sum of two float32 tensors, in the memory of the first; that of the second is freed.
pub(crate) fn add(mut sum: Tensor, other: Tensor) -> Result<Tensor> {
    if !sum.has_kernels() {
        return Tensor::from_candle((sum.to_candle()? + other.to_candle()?)?);
    }
    if !memory::is_dry_run() {
        convert::accumulate(sum.values_mut::<f32>()?, other.values()?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, tensor, uniform, uniform_tensor, with_plain_ops};

    #[test]
    fn kernels_and_plain_ops_round_alike() {
        let wide = (uniform("x", &[3, 67]) * 1e3).unwrap();
        for dtype in [DType::F16, DType::BF16] {
            let rounded = wide.to_dtype(dtype).unwrap();
            let check = || {
                let narrowed = narrow(&tensor(&wide), dtype).unwrap().copy().unwrap();
                assert_eq!((narrowed.dtype(), narrowed.dims()), (dtype, &[3, 67][..]));
                assert_close(&narrowed, &rounded, 0.0, "narrowed");
                let into = into_narrow(tensor(&wide), dtype).unwrap();
                assert_close(&into, &rounded, 0.0, "of a tensor that is given up");
                let widened = widen(&tensor(&rounded)).unwrap().copy().unwrap();
                assert_eq!(widened.dtype(), DType::F32);
                assert_close(&widened, &rounded, 0.0, "widened");
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn nothing_is_copied_in_the_same_format() {
        let x = uniform_tensor("x", &[2, 3]);
        assert!(widen(&x).unwrap().copy().is_none());
        let x = into_narrow(x, DType::BF16).unwrap();
        assert!(narrow(&x, DType::BF16).unwrap().copy().is_none());
    }

    #[test]
    fn sums_are_those_of_the_elements() {
        let (a, b) = (uniform("a", &[3, 67]), uniform("b", &[3, 67]));
        let sum = || add(tensor(&a), tensor(&b)).unwrap();
        let want = (&a + &b).unwrap();
        assert_close(&sum(), &want, 0.0, "kernel");
        assert_close(&with_plain_ops(sum), &want, 0.0, "plain ops");
    }
}
