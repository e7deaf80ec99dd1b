//! Linear layers by candle's ops, on any device.

use candle_core::{DType, Result, Tensor as Candle};

use super::{
    layer::Linear,
    projection::{Carried, Cut},
};
use crate::nn::{pass::Pass, tensor::Tensor, weight::Weight};

/// The outputs, in the dtype of `x`; `residual` is added to each.
pub(super) fn forward<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    residual: Option<&Tensor>,
    pass: &Pass,
) -> Result<[Tensor; N]> {
    let input = x.to_candle()?;
    let ys = linears
        .iter()
        .map(|linear| linear.forward_plain(&input, pass))
        .collect::<Result<Vec<_>>>()?;
    let outputs = cuts.iter().map(|cut| {
        let mut y = ys[cut.linear]
            .narrow(1, cut.first, cut.width)?
            .to_dtype(x.dtype())?
            .contiguous()?;
        if let Some(residual) = residual {
            y = (residual.to_candle()? + y)?;
        }
        Tensor::from_candle(y)
    });
    let outputs: Vec<Tensor> = outputs.collect::<Result<_>>()?;
    outputs
        .try_into()
        .map_err(|_| candle_core::Error::Msg("a layer gave no output".into()))
}

/// The gradient of the input in `dtype`, from those of the outputs.
pub(super) fn input_gradient<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
    pass: &Pass,
    dtype: DType,
) -> Result<(Tensor, Carried)> {
    let mut sum: Option<Candle> = None;
    for (at, linear) in linears.iter().enumerate() {
        let dx = linear.input_gradient_plain(&output_gradient(at, cuts, dys)?, pass)?;
        sum = Some(match sum {
            None => dx,
            Some(sum) => (sum + dx)?,
        });
    }
    let sum = sum.ok_or_else(|| candle_core::Error::Msg("no layer, no gradient".into()))?;
    Ok((Tensor::from_candle(sum.to_dtype(dtype)?)?, Carried { dh: None }))
}

/// Adds the gradients of what is trained.
pub(super) fn accumulate<const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: [&Tensor; N],
    pass: &Pass,
) -> Result<()> {
    let x = x.to_candle()?;
    for (at, linear) in linears.iter_mut().enumerate() {
        linear.accumulate_plain(&x, &output_gradient(at, cuts, dys)?, pass)?;
    }
    Ok(())
}

/// The gradient of a layer's whole output, float32.
fn output_gradient<const N: usize>(linear: usize, cuts: &[Cut; N], dys: [&Tensor; N]) -> Result<Candle> {
    let parts = cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == linear);
    let parts = parts.map(|(_, dy)| dy.to_candle_f32()).collect::<Result<Vec<_>>>()?;
    Candle::cat(&parts, 1)
}

impl Linear {
    /// The output in float32.
    fn forward_plain(&self, x: &Candle, pass: &Pass) -> Result<Candle> {
        let mut y = self.weight.forward_plain(x)?;
        if let Some(low_rank) = self.low_rank() {
            y = (y + low_rank.forward_plain(x, pass)?)?;
        }
        match &self.bias {
            Some(bias) => y.broadcast_add(&bias.value.to_candle_f32()?),
            None => Ok(y),
        }
    }

    fn input_gradient_plain(&self, dy: &Candle, pass: &Pass) -> Result<Candle> {
        let dx = self.weight.backward_plain(dy)?;
        match self.low_rank() {
            Some(low_rank) => dx + low_rank.input_gradient_plain(dy, pass)?,
            None => Ok(dx),
        }
    }

    fn accumulate_plain(&mut self, x: &Candle, dy: &Candle, pass: &Pass) -> Result<()> {
        if let Some(bias) = self.bias.as_mut().filter(|bias| bias.trainable) {
            bias.accumulate(Tensor::from_candle(dy.sum(0)?)?)?;
        }
        if let Weight::Dense(param) = &mut self.weight
            && param.trainable
        {
            let gradient = dy.t()?.matmul(&x.to_dtype(DType::F32)?)?;
            param.accumulate(Tensor::from_candle(gradient)?)?;
        }
        match self.adapter.as_mut().map(|adapter| adapter.low_rank_mut()) {
            Some(low_rank) => low_rank.accumulate_plain(x, dy, pass),
            None => Ok(()),
        }
    }
}
