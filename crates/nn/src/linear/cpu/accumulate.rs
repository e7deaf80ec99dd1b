//! The gradients of what is trained.

use candle_core::Result;
use kernels::{
    columns,
    gemm::{
        Epilogue, OperandReader,
        columns::{ColumnDots, blocks},
        epilogue::{Output, Replace, Transposed},
        multiply::Multiply,
    },
};
use memory::Buffer;

use super::{
    delta::{Deltas, accumulate_deltas},
    input_map::{accumulate_input_maps, mapped_blocks},
    llm_int8::QuantizedInput,
    low_rank::{Ranks, groups, is_masked, masked, rank_products},
    output_gradients::OutputGradients,
    outputs::{Inputs, multiply},
    products::{one_product, token_sum},
};
use crate::{
    linear::{carried::Carried, cut::Cut, layer::Linear, scales::Scales},
    operand::Stored,
    param::Param,
    pass::Pass,
    tensor::{Float, Tensor, for_format, for_number},
    weight::Weight,
};

/// Adds the gradients of what is trained.
pub(crate) fn accumulate<const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: [&Tensor; N],
    Carried {
        dh,
        scales,
        column_dots,
    }: Carried<N>,
    pass: &Pass,
) -> Result<()> {
    for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
        accumulate_biases::<E, N>(linears, cuts, dys)?;
        accumulate_weights::<P, N>(linears, cuts, x, dys)?;
        let ranks = Ranks::<N>::of(linears);
        let h = rank_products::<E, P, N>(linears, &ranks, x, pass)?;
        let of_sums = OutputGradients { dys, scales: &scales.outputs };
        if let (Some(h), Some(dh)) = (&h, &dh) {
            accumulate_low_rank::<E, P, N>(linears, cuts, x, &of_sums, &ranks, (h, dh), pass)?;
        }
        drop(dh);
        accumulate_deltas::<E, P, N>(linears, cuts, x, &of_sums)?;
        accumulate_input_maps::<E, P, N>(linears, cuts, x, &of_sums, &scales.inputs)?;
        match column_dots {
            Some(dots) => accumulate_output_scales_from(linears, &dots, scales),
            None => accumulate_output_scales::<E, P, N>(linears, cuts, x, dys, (&ranks, h.as_ref()), scales),
        }
    }))
}

fn accumulate_biases<E: Float, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
) -> Result<()> {
    for (at, linear) in linears.iter_mut().enumerate() {
        let Some(bias) = linear.bias.as_mut().filter(|bias| bias.trainable) else {
            continue;
        };
        let mut gradient = Tensor::new(Buffer::<f32>::unwritten(bias.value.len()), bias.value.len());
        for (cut, dy) in cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == at) {
            let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(dy.rows(), cut.width));
            if !memory::is_dry_run() {
                let out = &mut gradient.values_mut()?[cut.first..cut.first + cut.width];
                columns::sums(dy.values::<E>()?, scratch.values_mut(), out);
            }
        }
        bias.accumulate(gradient)?;
    }
    Ok(())
}

fn accumulate_weights<P: Multiply, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: [&Tensor; N],
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (x.rows(), x.cols());
    for (at, linear) in linears.iter_mut().enumerate() {
        let Weight::Dense(param) = &mut linear.weight else {
            continue;
        };
        if !param.trainable {
            continue;
        }
        let mut dw = Tensor::new(Buffer::<f32>::unwritten(param.value.len()), param.value.shape());
        if !memory::is_dry_run() {
            let reader = Stored::tensor(x)?;
            for (cut, dy) in cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == at) {
                let dy = Stored::tensor(dy)?;
                let term = token_sum::<P>(&dy, &reader, tokens);
                let dw = &mut dw.values_mut::<f32>()?[cut.first * inputs..][..cut.width * inputs];
                let out = Output::new(dw, inputs);
                one_product(cut.width, inputs, vec![term], &Replace { out, scale: 1.0 });
            }
        }
        param.accumulate(dw)?;
    }
    Ok(())
}

fn accumulate_low_rank<E: Float, P: Multiply, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: &OutputGradients<N>,
    ranks: &Ranks<N>,
    (h, dh): (&Tensor, &Tensor),
    pass: &Pass,
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (x.rows(), x.cols());
    let trains_a = linears
        .iter()
        .filter_map(Linear::low_rank)
        .any(|low_rank| low_rank.down.is_trained());
    let das = match trains_a {
        true => Some(factor_gradients::<P, N>(linears, x, ranks, dh, pass)?),
        false => None,
    };
    let mut start = 0;
    for (at, linear) in linears.iter_mut().enumerate() {
        let (rank, outputs) = (ranks.of[at], linear.weight.rows());
        let Some(low_rank) = linear.adapter.as_mut().and_then(|adapter| adapter.low_rank_mut()) else {
            continue;
        };
        let is_transposed = low_rank.up.is_transposed();
        let shape = if is_transposed {
            (rank, outputs)
        } else {
            (outputs, rank)
        };
        let mut db = Tensor::new(Buffer::<f32>::unwritten(outputs * rank), shape);
        if !memory::is_dry_run() {
            let h = ranks.window(h, at)?;
            for (index, cut) in cuts.iter().enumerate().filter(|(_, cut)| cut.linear == at) {
                let dy = dys.reader::<E, P>(index, cut)?;
                let term = token_sum::<P>(&h, &*dy, tokens);
                let db = db.values_mut::<f32>()?;
                if is_transposed {
                    let out = Output::window(db, outputs, cut.first);
                    one_product(rank, cut.width, vec![term], &Replace { out, scale: 1.0 });
                } else {
                    let out = Output::new(&mut db[cut.first * rank..][..cut.width * rank], rank);
                    one_product(rank, cut.width, vec![term], &Transposed { out });
                }
            }
        }
        if let Some(das) = &das {
            let da = Tensor::written((rank, inputs), |da: &mut [f32]| {
                da.copy_from_slice(&das.values()[start..start + rank * inputs]);
            });
            start += rank * inputs;
            if let Some(a) = low_rank.down.trained_mut() {
                a.accumulate(da)?;
            }
        }
        low_rank.up.accumulate(db)?;
    }
    Ok(())
}

/// The gradients of all A, one below the other.
fn factor_gradients<P: Multiply, const N: usize>(
    linears: &[Linear],
    x: &Tensor,
    ranks: &Ranks<N>,
    dh: &Tensor,
    pass: &Pass,
) -> Result<Buffer<f32>>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (x.rows(), x.cols());
    let mut das = Buffer::<f32>::unwritten(ranks.total * inputs);
    if !memory::is_dry_run() {
        let reader = Stored::tensor(x)?;
        // With dropout, each layer has its own input; without, the rows of all A's gradients are one product.
        for group in groups(linears, is_masked(linears, pass)) {
            let rows: usize = ranks.of[group.clone()].iter().sum();
            if rows == 0 {
                continue;
            }
            let masked = masked(&reader, &linears[group.start], pass, inputs);
            let input: &dyn OperandReader<P> = masked
                .as_ref()
                .map_or(&reader as &dyn OperandReader<P>, |masked| masked);
            let dh = ranks.window(dh, group.start)?;
            let da = &mut das.values_mut()[ranks.start(group.start) * inputs..][..rows * inputs];
            let out = Output::new(da, inputs);
            one_product(
                rows,
                inputs,
                vec![token_sum(&dh, input, tokens)],
                &Replace { out, scale: 1.0 },
            );
        }
    }
    Ok(das)
}

/// A factor's gradient is the dot product of its output, as it is before the scale, with that output's gradient. The
/// outputs are computed again.
fn accumulate_output_scales<E: Float, P: Multiply, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: [&Tensor; N],
    (ranks, h): (&Ranks<N>, Option<&Tensor>),
    Scales {
        inputs,
        outputs: scales,
    }: Scales<N>,
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    if scales.iter().all(Option::is_none) {
        return Ok(());
    }
    let rows = blocks(x.rows());
    let mut dots = cuts.map(|cut| {
        let is_scaled = scales[cut.linear].is_some();
        Buffer::<f32>::unwritten(if is_scaled { rows * cut.width } else { 0 })
    });
    let quantized = QuantizedInput::of(linears, x)?;
    let inputs = Inputs {
        x,
        maps: &inputs,
        mapped: mapped_blocks::<E, P, N>(x, &inputs)?,
        deltas: Deltas::of(linears)?,
    };
    if !memory::is_dry_run() {
        let mut epilogues = Vec::with_capacity(N);
        for ((cut, dy), dots) in cuts.iter().zip(dys).zip(&mut dots) {
            if scales[cut.linear].is_some() {
                let (other, out) = (dy.values::<E>()?, Output::new(dots.values_mut(), cut.width));
                epilogues.push((*cut, ColumnDots { other, out }));
            }
        }
        let outputs: Vec<_> = epilogues
            .iter()
            .map(|(cut, epilogue)| (*cut, epilogue as &dyn Epilogue))
            .collect();
        multiply::<P, N>(linears, &outputs, &inputs, (ranks, h), quantized.as_ref())?;
    }
    drop((quantized, inputs));
    for (at, (linear, scale)) in linears.iter_mut().zip(scales).enumerate() {
        let (Some(adapter), Some(scale)) = (&mut linear.adapter, scale) else {
            continue;
        };
        let outputs = linear.weight.rows();
        let mut gradient = Tensor::new(Buffer::<f32>::unwritten(outputs), outputs);
        for (cut, dots) in cuts.iter().zip(&dots).filter(|(cut, _)| cut.linear == at) {
            let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(rows, cut.width));
            if !memory::is_dry_run() {
                let out = &mut gradient.values_mut()?[cut.first..][..cut.width];
                columns::sums(dots.values(), scratch.values_mut(), out);
            }
        }
        if let Some(bias) = linear.bias.as_ref().filter(|_| scale.scales_bias) {
            add_bias_part::<E, N>(at, cuts, dys, bias, &mut gradient)?;
        }
        adapter.accumulate_output_scale(gradient)?;
    }
    Ok(())
}

/// Adds the factors' gradients, from the dot products of the scaled outputs with their gradients.
fn accumulate_output_scales_from<const N: usize>(
    linears: &mut [Linear],
    dots: &Tensor,
    Scales { outputs, .. }: Scales<N>,
) -> Result<()> {
    let mut first = 0;
    for (linear, scale) in linears.iter_mut().zip(outputs) {
        let outputs = linear.weight.rows();
        if let (Some(adapter), Some(scale)) = (&mut linear.adapter, scale) {
            let (dots, factors) = (dots.values::<f32>()?, scale.factors.values::<f32>()?);
            let gradient = Tensor::written(outputs, |gradient: &mut [f32]| {
                for ((gradient, dot), factor) in gradient.iter_mut().zip(&dots[first..]).zip(factors) {
                    *gradient = dot / factor;
                }
            });
            adapter.accumulate_output_scale(gradient)?;
        }
        first += outputs;
    }
    Ok(())
}

/// Adds the bias's part to the gradient of a layer's factors: each element times the sum of its output's gradients.
fn add_bias_part<E: Float, const N: usize>(
    layer: usize,
    cuts: &[Cut; N],
    dys: [&Tensor; N],
    bias: &Param,
    gradient: &mut Tensor,
) -> Result<()> {
    let bias = bias.f32()?;
    for (cut, dy) in cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == layer) {
        let mut sums = Buffer::<f32>::unwritten(cut.width);
        let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(dy.rows(), cut.width));
        if !memory::is_dry_run() {
            columns::sums(dy.values::<E>()?, scratch.values_mut(), sums.values_mut());
            let gradient = &mut gradient.values_mut::<f32>()?[cut.first..];
            let bias = &bias.values::<f32>()?[cut.first..];
            for ((gradient, sum), bias) in gradient.iter_mut().zip(sums.values()).zip(bias) {
                *gradient += sum * bias;
            }
        }
    }
    Ok(())
}
