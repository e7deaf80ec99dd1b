//! The forward pass.

use candle_core::{DType, Result};

use super::{
    llm_int8::IntegerProducts,
    low_rank::{Ranks, rank_products},
    outputs::{factors, multiply},
};
use crate::kernels::gemm::{
    Epilogue, OperandReader,
    epilogue::{LinearCombination, Output, Replace},
    multiply::Multiply,
};
use crate::memory::{self, Buffer};
use crate::nn::{
    adapter::OutputScale,
    convert::Converted,
    linear::{
        cut::Cut,
        layer::{Linear, output_scales},
    },
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
    let scales = output_scales::<N>(linears)?;
    let h = for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
        rank_products::<E, P, N>(linears, &ranks, x, pass)
    }))?;
    for_format!(dtype, O => for_number!(x.dtype(), P => {
        outputs::<O, P, N>(linears, cuts, (x, residual), (&ranks, h.as_ref()), &scales)
    }))
}

/// The outputs from the low-rank terms' inner products `h` and the outputs' factors.
fn outputs<O: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    (x, residual): (&Tensor, Option<&Tensor>),
    (ranks, h): (&Ranks<N>, Option<&Tensor>),
    scales: &[Option<Box<OutputScale>>; N],
) -> Result<[Tensor; N]>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let mut biases: [Option<Converted>; N] = [const { None }; N];
    for (bias, linear) in biases.iter_mut().zip(linears) {
        *bias = linear.bias.as_ref().map(Param::f32).transpose()?;
    }
    let integers = IntegerProducts::of(linears, cuts.iter().copied(), x)?;
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
    multiply::<P, N>(linears, &outputs, ranks, x, h, integers.as_ref())?;
    drop(epilogues);
    Ok(ys)
}
