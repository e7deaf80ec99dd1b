//! The forward pass.

use candle_core::{DType, Result};
use kernels::gemm::{
    Epilogue, OperandReader,
    epilogue::{LinearCombination, Output, Replace},
    multiply::Multiply,
};
use memory::Buffer;

use super::{
    delta::Deltas,
    input_map::mapped_blocks,
    llm_int8::QuantizedInput,
    low_rank::{Ranks, rank_products},
    output_gradients::factors,
    outputs::{Inputs, multiply},
};
use crate::{
    adapter::OutputScale,
    convert::Converted,
    linear::{cut::Cut, layer::Linear, scales::Scales},
    operand::Stored,
    param::Param,
    pass::Pass,
    tensor::{Float, Tensor, for_format, for_number},
};

/// The outputs, in `dtype`; `residual`, of the only output's shape and in `dtype` too, is added to it.
pub(crate) fn forward<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    residual: Option<&Tensor>,
    dtype: DType,
    pass: &Pass,
) -> Result<[Tensor; N]> {
    let ranks = Ranks::<N>::of(linears);
    let scales = Scales::<N>::of(linears)?;
    let h = for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
        rank_products::<E, P, N>(linears, &ranks, x, pass)
    }))?;
    let inputs = Inputs {
        x,
        maps: &scales.inputs,
        mapped: for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
            mapped_blocks::<E, P, N>(x, &scales.inputs)
        }))?,
        deltas: Deltas::of(linears)?,
    };
    for_format!(dtype, O => for_number!(x.dtype(), P => {
        outputs::<O, P, N>(linears, cuts, (&inputs, residual), (&ranks, h.as_ref()), &scales.outputs)
    }))
}

/// The outputs from the low-rank terms' inner products `h` and the outputs' factors.
fn outputs<O: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    (inputs, residual): (&Inputs<N>, Option<&Tensor>),
    (ranks, h): (&Ranks<N>, Option<&Tensor>),
    scales: &[Option<Box<OutputScale>>; N],
) -> Result<[Tensor; N]>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let x = inputs.x;
    let mut biases: [Option<Converted>; N] = [const { None }; N];
    for (at, linear) in linears.iter().enumerate() {
        let scale = scales[at].as_deref();
        let bias = linear.bias.as_ref();
        biases[at] = bias.map(|bias| scaled_bias(bias, scale)).transpose()?;
    }
    let quantized = QuantizedInput::of(linears, x)?;
    let mut ys = cuts.map(|cut| Tensor::new(Buffer::<O>::unwritten(x.rows() * cut.width), (x.rows(), cut.width)));
    if memory::is_dry_run() {
        return Ok(ys);
    }
    let residual = residual.map(Tensor::values::<O>).transpose()?;
    let mut epilogues: Vec<Box<dyn Epilogue + '_>> = Vec::with_capacity(N);
    for (y, cut) in ys.iter_mut().zip(cuts) {
        let out = Output::new(y.values_mut::<O>()?, cut.width);
        let scale = scales[cut.linear].as_ref();
        let scale = scale.map(|scale| factors(scale, cut)).transpose()?;
        let bias = match &biases[cut.linear] {
            Some(bias) => Some(&bias.values::<f32>()?[cut.first..][..cut.width]),
            None => None,
        };
        epilogues.push(if scale.is_none() && bias.is_none() && residual.is_none() {
            Box::new(Replace { out, scale: 1.0 })
        } else {
            Box::new(LinearCombination {
                out,
                scale,
                bias,
                residual,
            })
        });
    }
    let outputs: Vec<(Cut, &dyn Epilogue)> = cuts
        .iter()
        .zip(&epilogues)
        .map(|(cut, epilogue)| (*cut, &**epilogue))
        .collect();
    multiply::<P, N>(linears, &outputs, inputs, (ranks, h), quantized.as_ref())?;
    drop(epilogues);
    Ok(ys)
}

/// The bias in float32, multiplied by the outputs' factors if they are those of the bias, too.
fn scaled_bias<'a>(bias: &'a Param, scale: Option<&OutputScale>) -> Result<Converted<'a>> {
    let wide = bias.f32()?;
    let Some(scale) = scale.filter(|scale| scale.scales_bias) else {
        return Ok(wide);
    };
    let (values, factors) = (wide.values::<f32>()?, scale.factors.values::<f32>()?);
    let scaled = Tensor::written(wide.len(), |scaled: &mut [f32]| {
        for ((scaled, value), factor) in scaled.iter_mut().zip(values).zip(factors) {
            *scaled = value * factor;
        }
    });
    Ok(Converted::Copy(scaled))
}
