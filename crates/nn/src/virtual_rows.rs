//! Rows of virtual tokens before those of each sequence, and the sums of their gradients over the sequences.

use candle_core::{DType, Result, Tensor as Candle};
use kernels::{Element, Sequences};

use super::{
    convert,
    tensor::{Tensor, for_format},
};

/// The rows of `x` with those of `own` virtual tokens before each of the `sequences`, which count both: `first`, or
/// zeros.
pub(super) fn before(x: &Tensor, own: usize, first: Option<&Tensor>, sequences: &Sequences) -> Result<Tensor> {
    let cols = x.cols();
    if !x.has_kernels() {
        let x = x.to_candle()?;
        let first = match first {
            Some(first) => first.to_candle()?.to_dtype(x.dtype())?,
            None => Candle::zeros((own, cols), x.dtype(), x.device())?,
        };
        return before_plain(&x, &first, sequences);
    }
    let wide = first.map(convert::widen).transpose()?;
    let first = wide.as_deref().map(Tensor::values::<f32>).transpose()?;
    for_format!(x.dtype(), E => {
        let mut from = x.values::<E>()?;
        Ok(Tensor::written((sequences.tokens(), cols), |out: &mut [E]| {
            for tokens in sequences.iter() {
                let (virtual_rows, rows) = out[tokens.start * cols..tokens.end * cols].split_at_mut(own * cols);
                match first {
                    Some(first) => kernels::convert::narrow(first, virtual_rows),
                    None => virtual_rows.fill(E::narrow(0.0)),
                }
                let (own_rows, rest) = from.split_at(rows.len());
                rows.copy_from_slice(own_rows);
                from = rest;
            }
        }))
    })
}

/// The rows of `x` with the rows `first` before each of the `sequences`, by candle's ops.
pub(super) fn before_plain(x: &Candle, first: &Candle, sequences: &Sequences) -> Result<Tensor> {
    let own = first.dim(0)?;
    let mut parts = Vec::with_capacity(2 * sequences.count());
    for (index, tokens) in sequences.iter().enumerate() {
        parts.push(first.clone());
        parts.push(x.narrow(0, tokens.start - index * own, tokens.len() - own)?);
    }
    Tensor::from_candle(Candle::cat(&parts, 0)?)
}

/// The sum over the `sequences` of the rows of their `own` virtual tokens, float32.
pub(super) fn sum(dx: &Tensor, own: usize, sequences: &Sequences) -> Result<Tensor> {
    let cols = dx.cols();
    if !dx.has_kernels() {
        let dx = dx.to_candle_f32()?;
        let mut sum = Candle::zeros((own, cols), DType::F32, dx.device())?;
        for tokens in sequences.iter() {
            sum = (sum + dx.narrow(0, tokens.start, own)?)?;
        }
        return Tensor::from_candle(sum);
    }
    for_format!(dx.dtype(), E => {
        let values = dx.values::<E>()?;
        Ok(Tensor::written((own, cols), |sum: &mut [f32]| {
            sum.fill(0.0);
            for tokens in sequences.iter() {
                let rows = &values[tokens.start * cols..][..own * cols];
                sum.iter_mut().zip(rows).for_each(|(sum, value)| *sum += value.widen());
            }
        }))
    })
}
