//! Linear layers by candle's ops, on any device.

use candle_core::{DType, Result, Tensor as Candle};

use super::{carried::Carried, cut::Cut, layer::Linear, scales::Scales};
use crate::{adapter::OutputScale, pass::Pass, tensor::Tensor, weight::Weight};

/// The outputs, in `dtype`; `residual`, which has it too, is added to each.
pub(super) fn forward<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    residual: Option<&Tensor>,
    dtype: DType,
    pass: &Pass,
) -> Result<[Tensor; N]> {
    let input = x.to_candle()?;
    let scales = Scales::<N>::of(linears)?;
    let mut outputs = Vec::with_capacity(N);
    for (at, linear) in linears.iter().enumerate() {
        // Rounded at once: one float32 output at a time.
        let scales = (scales.inputs[at].as_deref(), scales.outputs[at].as_deref());
        let y = linear.forward_plain(&input, scales, pass)?.to_dtype(dtype)?;
        for cut in cuts.iter().filter(|cut| cut.linear == at) {
            let mut y = y.narrow(1, cut.first, cut.width)?.contiguous()?;
            if let Some(residual) = residual {
                y = (residual.to_candle()? + y)?;
            }
            outputs.push(Tensor::from_candle(y)?);
        }
    }
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
) -> Result<(Tensor, Carried<N>)> {
    let scales = Scales::<N>::of(linears)?;
    let mut sum: Option<Candle> = None;
    for (at, linear) in linears.iter().enumerate() {
        let dy = scaled(output_gradient(at, cuts, dys)?, scales.outputs[at].as_deref())?;
        let dx = linear.input_gradient_plain(&dy, scales.inputs[at].as_deref(), pass)?;
        sum = Some(match sum {
            None => dx,
            Some(sum) => (sum + dx)?,
        });
    }
    let sum = sum.ok_or_else(|| candle_core::Error::Msg("no layer, no gradient".into()))?;
    Ok((Tensor::from_candle(sum.to_dtype(dtype)?)?, Carried::new(None, scales)))
}

/// The intermediate results for [`accumulate`], without the gradient of the input.
pub(super) fn without_input_gradient<const N: usize>(linears: &[Linear]) -> Result<Carried<N>> {
    Ok(Carried::new(None, Scales::of(linears)?))
}

/// Adds the gradients of what is trained.
pub(super) fn accumulate<const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: [&Tensor; N],
    Carried { scales, .. }: Carried<N>,
    pass: &Pass,
) -> Result<()> {
    let x = x.to_candle()?;
    let scales = scales.inputs.into_iter().zip(scales.outputs);
    for (at, (linear, scales)) in linears.iter_mut().zip(scales).enumerate() {
        linear.accumulate_plain(&x, output_gradient(at, cuts, dys)?, scales, pass)?;
    }
    Ok(())
}

/// `x` with each column multiplied by its factor, if there are factors.
fn scaled(x: Candle, scale: Option<&OutputScale>) -> Result<Candle> {
    match scale {
        Some(scale) => x.broadcast_mul(&scale.factors.to_candle()?),
        None => Ok(x),
    }
}

/// The gradient of a layer's whole output, float32.
fn output_gradient<const N: usize>(linear: usize, cuts: &[Cut; N], dys: [&Tensor; N]) -> Result<Candle> {
    let parts = cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == linear);
    let parts = parts.map(|(_, dy)| dy.to_candle_f32()).collect::<Result<Vec<_>>>()?;
    Candle::cat(&parts, 1)
}

/// The input of a layer's product, in its dtype: each column multiplied by its factor, if there are factors.
fn scaled_input(x: &Candle, factors: Option<&Tensor>) -> Result<Candle> {
    match factors {
        Some(factors) => {
            let product = x.to_dtype(DType::F32)?.broadcast_mul(&factors.to_candle()?)?;
            product.to_dtype(x.dtype())
        }
        None => Ok(x.clone()),
    }
}

impl Linear {
    /// The output in float32.
    fn forward_plain(
        &self,
        x: &Candle,
        (input, output): (Option<&Tensor>, Option<&OutputScale>),
        pass: &Pass,
    ) -> Result<Candle> {
        let y = scaled(self.sum_plain(x, input, output, pass)?, output)?;
        match &self.bias {
            Some(bias) if !output.is_some_and(|scale| scale.scales_bias) => {
                y.broadcast_add(&bias.value.to_candle_f32()?)
            }
            _ => Ok(y),
        }
    }

    /// The sum that is scaled: the product, the term beside it, and the bias if it is scaled too.
    fn sum_plain(
        &self,
        x: &Candle,
        input: Option<&Tensor>,
        output: Option<&OutputScale>,
        pass: &Pass,
    ) -> Result<Candle> {
        let product = self.weight.forward_plain(&scaled_input(x, input)?)?;
        let sum = match self.low_rank() {
            Some(low_rank) => (product + low_rank.forward_plain(x, pass)?)?,
            None => product,
        };
        match &self.bias {
            Some(bias) if output.is_some_and(|scale| scale.scales_bias) => {
                sum.broadcast_add(&bias.value.to_candle_f32()?)
            }
            _ => Ok(sum),
        }
    }

    /// From the gradient of the sum.
    fn input_gradient_plain(&self, dy: &Candle, input: Option<&Tensor>, pass: &Pass) -> Result<Candle> {
        let dx = scaled_input(&self.weight.backward_plain(dy)?, input)?;
        match self.low_rank() {
            Some(low_rank) => dx + low_rank.input_gradient_plain(dy, self.weight.cols(), pass)?,
            None => Ok(dx),
        }
    }

    fn accumulate_plain(
        &mut self,
        x: &Candle,
        dy: Candle,
        (input, output): (Option<Box<Tensor>>, Option<Box<OutputScale>>),
        pass: &Pass,
    ) -> Result<()> {
        if let Some(bias) = self.bias.as_mut().filter(|bias| bias.trainable) {
            bias.accumulate(Tensor::from_candle(dy.sum(0)?)?)?;
        }
        if let Weight::Dense(param) = &mut self.weight
            && param.trainable
        {
            let gradient = dy.t()?.matmul(&x.to_dtype(DType::F32)?)?;
            param.accumulate(Tensor::from_candle(gradient)?)?;
        }
        let of_outputs = match output.as_deref() {
            Some(scale) => Some((&dy * self.sum_plain(x, input.as_deref(), Some(scale), pass)?)?.sum(0)?),
            None => None,
        };
        let dy = scaled(dy, output.as_deref())?;
        let of_inputs = match input {
            Some(_) => Some((x.to_dtype(DType::F32)? * self.weight.backward_plain(&dy)?)?.sum(0)?),
            None => None,
        };
        let Some(adapter) = &mut self.adapter else {
            return Ok(());
        };
        if let Some(low_rank) = adapter.low_rank_mut() {
            low_rank.accumulate_plain(x, &dy, pass)?;
        }
        if let Some(gradient) = of_inputs {
            adapter.accumulate_input_scale(Tensor::from_candle(gradient)?)?;
        }
        match (of_outputs, output) {
            (Some(gradient), Some(_)) => adapter.accumulate_output_scale(Tensor::from_candle(gradient)?),
            _ => Ok(()),
        }
    }
}
