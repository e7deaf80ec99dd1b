//! Conversions of formats, and sums in place.

use std::ops::Deref;

use candle_core::{DType, Result};

use super::tensor::{Tensor, for_format};
use crate::{kernels::convert, memory};

/// A tensor in another format: itself if it has that format, else a copy.
#[derive(Debug)]
pub(crate) enum Converted<'a> {
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
    pub(crate) fn copy(self) -> Option<Tensor> {
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

/// The same of a tensor that nobody needs any more.
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
