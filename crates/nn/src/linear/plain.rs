//! Linear layers by candle's ops, on any device.

use candle_core::{DType, Result, Tensor as Candle};

use super::{carried::Carried, cut::Cut, layer::Linear, scales::Scales};
use crate::{
    adapter::{InputMap, OutputScale},
    pass::Pass,
    tensor::Tensor,
    weight::Weight,
};

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

/// The input of a layer's product, in its dtype, as the map makes it; or the gradient of the input from that.
fn mapped(x: &Candle, map: Option<&InputMap>, is_gradient: bool) -> Result<Candle> {
    let product = match map {
        None => return Ok(x.clone()),
        Some(InputMap::Factors(factors)) => x.to_dtype(DType::F32)?.broadcast_mul(&factors.to_candle()?)?,
        Some(InputMap::Blocks(matrices)) => {
            let matrices = by_block(matrices, x)?;
            let matrices = match is_gradient {
                true => matrices.t()?.contiguous()?,
                false => matrices,
            };
            let blocks = blocks_of(x, matrices.dim(1)?)?.matmul(&matrices)?;
            blocks.transpose(0, 1)?.contiguous()?.reshape(x.dims())?
        }
    };
    product.to_dtype(x.dtype())
}

/// The matrices of all blocks of `x`: `[blocks, size, size]`.
fn by_block(matrices: &Tensor, x: &Candle) -> Result<Candle> {
    let size = matrices.cols();
    let matrices = matrices.to_candle()?.reshape(((), size, size))?;
    matrices.broadcast_as((x.dim(1)? / size, size, size))?.contiguous()
}

/// The columns of `x` in blocks: `[blocks, rows, size]`, float32.
fn blocks_of(x: &Candle, size: usize) -> Result<Candle> {
    let (rows, columns) = x.dims2()?;
    let blocks = x.to_dtype(DType::F32)?.reshape((rows, columns / size, size))?;
    blocks.transpose(0, 1)?.contiguous()
}

/// The gradient of a map's elements from the input and the gradient of the mapped input.
fn map_gradient(x: &Candle, of_mapped: &Candle, map: &InputMap) -> Result<Tensor> {
    let gradient = match map {
        InputMap::Factors(_) => (x.to_dtype(DType::F32)? * of_mapped)?.sum(0)?,
        InputMap::Blocks(matrices) => {
            let (size, rows) = (matrices.cols(), matrices.rows());
            let x = blocks_of(x, size)?.transpose(1, 2)?.contiguous()?;
            let gradient = x.matmul(&blocks_of(of_mapped, size)?)?;
            // A matrix of all blocks has the sum over the blocks.
            let gradient = match rows == size {
                true => gradient.sum(0)?,
                false => gradient,
            };
            gradient.reshape((rows, size))?
        }
    };
    Tensor::from_candle(gradient)
}

impl Linear {
    /// The output in float32.
    fn forward_plain(
        &self,
        x: &Candle,
        (input, output): (Option<&InputMap>, Option<&OutputScale>),
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
        input: Option<&InputMap>,
        output: Option<&OutputScale>,
        pass: &Pass,
    ) -> Result<Candle> {
        let mut sum = self.weight.forward_plain(&mapped(x, input, false)?)?;
        if let Some(low_rank) = self.low_rank() {
            sum = (sum + low_rank.forward_plain(x, pass)?)?;
        }
        if let Some(delta) = self.delta() {
            sum = (sum + x.to_dtype(DType::F32)?.matmul(&delta.plain()?.t()?)?)?;
        }
        match &self.bias {
            Some(bias) if output.is_some_and(|scale| scale.scales_bias) => {
                sum.broadcast_add(&bias.value.to_candle_f32()?)
            }
            _ => Ok(sum),
        }
    }

    /// From the gradient of the sum.
    fn input_gradient_plain(&self, dy: &Candle, input: Option<&InputMap>, pass: &Pass) -> Result<Candle> {
        let mut dx = mapped(&self.weight.backward_plain(dy)?, input, true)?;
        if let Some(low_rank) = self.low_rank() {
            dx = (dx + low_rank.input_gradient_plain(dy, self.weight.cols(), pass)?)?;
        }
        match self.delta() {
            Some(delta) => dx + dy.matmul(&delta.plain()?)?,
            None => Ok(dx),
        }
    }

    fn accumulate_plain(
        &mut self,
        x: &Candle,
        dy: Candle,
        (input, output): (Option<Box<InputMap>>, Option<Box<OutputScale>>),
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
        let of_inputs = match &input {
            Some(map) => Some(map_gradient(x, &self.weight.backward_plain(&dy)?, map)?),
            None => None,
        };
        let Some(adapter) = &mut self.adapter else {
            return Ok(());
        };
        if let Some(low_rank) = adapter.low_rank_mut() {
            low_rank.accumulate_plain(x, &dy, pass)?;
        }
        if let Some(delta) = adapter.delta_mut() {
            let gradient = dy.t()?.contiguous()?.matmul(&x.to_dtype(DType::F32)?)?;
            delta.accumulate_plain(&gradient)?;
        }
        if let Some(gradient) = of_inputs {
            adapter.accumulate_input_map(gradient)?;
        }
        match (of_outputs, output) {
            (Some(gradient), Some(_)) => adapter.accumulate_output_scale(Tensor::from_candle(gradient)?),
            _ => Ok(()),
        }
    }
}
