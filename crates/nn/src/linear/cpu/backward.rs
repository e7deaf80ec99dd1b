//! The gradient of the input.

use std::ops::Range;

use candle_core::{DType, Result};
use kernels::gemm::{
    Operand, OperandReader, Term,
    block::TILE,
    epilogue::{AddScaled, Output, Replace},
    multiply::Multiply,
};
use memory::Buffer;

use super::{
    delta::Deltas,
    input_map::multiply_blocks,
    low_rank::{Ranks, is_masked, masks, stacked},
    output_gradients::OutputGradients,
    products::one_product,
};
use crate::{
    adapter::InputMap,
    convert,
    linear::{carried::Carried, cut::Cut, layer::Linear, scales::Scales},
    operand::{Stack, Stored},
    pass::Pass,
    tensor::{Float, Tensor, for_format, for_number},
};

/// The gradient of the input in `dtype`, summed over the outputs; and that of the low-rank terms' inner products, for
/// [`accumulate`].
pub(crate) fn input_gradient<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
    pass: &Pass,
    dtype: DType,
) -> Result<(Tensor, Carried<N>)> {
    // Sums of several products are rounded once.
    let has_several = is_masked(linears, pass) || has_blocks(linears);
    if has_several && dtype != DType::F32 {
        let (dx, carried) = input_gradient(linears, cuts, dys, pass, DType::F32)?;
        return Ok((convert::into_narrow(dx, dtype)?, carried));
    }
    for_format!(dys[0].dtype(), E => for_number!(dys[0].dtype(), P => {
        for_format!(dtype, O => input_gradient_as::<E, O, P, N>(linears, cuts, dys, pass))
    }))
}

/// The intermediate results for [`accumulate`], without the gradient of the input.
pub(crate) fn without_input_gradient<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
) -> Result<Carried<N>> {
    let scales = Scales::<N>::of(linears)?;
    let gradients = OutputGradients {
        dys,
        scales: &scales.outputs,
    };
    let ranks = Ranks::<N>::of(linears);
    let dh = for_format!(dys[0].dtype(), E => for_number!(dys[0].dtype(), P => {
        rank_gradients::<E, P, N>(linears, cuts, &gradients, &ranks)
    }))?;
    Ok(Carried::new(dh, scales))
}

/// True if a layer's map multiplies blocks of inputs.
fn has_blocks(linears: &[Linear]) -> bool {
    let mut adapters = linears.iter().filter_map(|linear| linear.adapter.as_ref());
    adapters.any(|adapter| adapter.maps_blocks())
}

fn input_gradient_as<E: Float, O: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
    pass: &Pass,
) -> Result<(Tensor, Carried<N>)>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (dys[0].rows(), linears[0].weight.cols());
    let ranks = Ranks::<N>::of(linears);
    let scales = Scales::<N>::of(linears)?;
    let gradients = OutputGradients {
        dys,
        scales: &scales.outputs,
    };
    let dh = rank_gradients::<E, P, N>(linears, cuts, &gradients, &ranks)?;
    let mut dx = Tensor::new(Buffer::<O>::unwritten(tokens * inputs), (tokens, inputs));
    // Of layers whose maps multiply blocks: the gradient of the mapped input, and its part of that of the input.
    let unwritten = || {
        let shape = (tokens, inputs);
        let mapped = Tensor::new(Buffer::<E>::unwritten(tokens * inputs), shape);
        (mapped, Tensor::new(Buffer::<f32>::unwritten(tokens * inputs), shape))
    };
    let blocks = |map: &Option<Box<InputMap>>| map.as_deref().and_then(InputMap::blocks).is_some();
    let deltas = Deltas::<N>::of(linears)?;
    let mut scratch = scales.inputs.iter().any(blocks).then(unwritten);
    if memory::is_dry_run() {
        return Ok((dx, Carried::new(dh, scales)));
    }
    let readers = gradients.readers::<E, P>(cuts)?;
    let weights = cuts
        .iter()
        .map(|cut| Stored::weight(&linears[cut.linear].weight, cut.first));
    let weights: Vec<Stored> = weights.collect::<Result<_>>()?;
    let weight_terms = |is_mine: &dyn Fn(usize) -> bool| -> Vec<Term<P>> {
        let mine = readers.iter().zip(&weights).zip(cuts);
        let mine = mine.filter(|(_, cut)| is_mine(cut.linear));
        let terms = mine.map(|((dy, weight), cut)| Term {
            left: Operand::depth_last(&**dy),
            right: Operand::depth_first(weight),
            depth: cut.width,
        });
        terms.collect()
    };
    let of_cuts: Vec<Option<Stored>> = cuts.iter().map(|cut| deltas.rows(cut)).collect();
    let mut terms = weight_terms(&|linear| scales.inputs[linear].is_none());
    let of_deltas = readers.iter().zip(&of_cuts).zip(cuts);
    terms.extend(of_deltas.filter_map(|((dy, delta), cut)| {
        Some(Term {
            left: Operand::depth_last(&**dy),
            right: Operand::depth_first(delta.as_ref()?),
            depth: cut.width,
        })
    }));
    let masked = is_masked(linears, pass);
    let a = Stack::new(stacked(linears)?);
    let whole = dh.as_ref().map(Stored::tensor).transpose()?;
    let of_ranks = whole.as_ref().zip(a.as_ref()).filter(|_| !masked);
    terms.extend(of_ranks.map(|(dh, a)| Term {
        left: Operand::depth_last(dh),
        right: Operand::depth_first(a),
        depth: ranks.total,
    }));
    if terms.is_empty() {
        dx.values_mut::<O>()?.fill(O::narrow(0.0));
    } else {
        let out = Output::new(dx.values_mut::<O>()?, inputs);
        one_product(tokens, inputs, terms, &Replace { out, scale: 1.0 });
    }
    for (at, map) in scales.inputs.iter().enumerate() {
        let terms = weight_terms(&|linear| linear == at);
        match map.as_deref() {
            None => {}
            Some(InputMap::Factors(factors)) => {
                let factors = factors.values::<f32>()?;
                let out = Output::new(dx.values_mut::<O>()?, inputs);
                let factors = |_, cols: Range<usize>| {
                    let mut of_cols = [1.0; TILE];
                    of_cols[..cols.len()].copy_from_slice(&factors[cols]);
                    of_cols
                };
                one_product(tokens, inputs, terms, &AddScaled { out, factors });
            }
            Some(InputMap::Blocks(matrices)) => {
                let Some((mapped, unmapped)) = &mut scratch else {
                    continue;
                };
                let out = Output::new(mapped.values_mut::<E>()?, inputs);
                one_product(tokens, inputs, terms, &Replace { out, scale: 1.0 });
                multiply_blocks::<f32, P>(mapped, matrices, true, unmapped.values_mut::<f32>()?)?;
                kernels::convert::accumulate(dx.values_mut::<O>()?, unmapped.values::<f32>()?);
            }
        }
    }
    if let Some(dh) = dh.as_ref().filter(|_| masked) {
        for (at, linear) in linears.iter().enumerate() {
            let Some(low_rank) = linear.low_rank() else { continue };
            let (dh, a) = (ranks.window(dh, at)?, low_rank.down.stored()?);
            let masks = masks(low_rank, pass, inputs);
            let term = Term::<P> {
                left: Operand::depth_last(&dh),
                right: Operand::depth_first(&a),
                depth: ranks.of[at],
            };
            let factors = |row, cols: Range<usize>| {
                let mut of_cols = [1.0; TILE];
                if let Some(masks) = &masks {
                    masks.fill(row, cols.start, &mut of_cols[..cols.len()]);
                }
                of_cols
            };
            let out = Output::new(dx.values_mut::<O>()?, inputs);
            one_product(tokens, inputs, vec![term], &AddScaled { out, factors });
        }
    }
    drop((readers, of_cuts, whole, a));
    Ok((dx, Carried::new(dh, scales)))
}

/// The gradients of the low-rank terms' inner products, `scale · dy · B`, side by side; `None` without low-rank terms.
fn rank_gradients<E: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    gradients: &OutputGradients<N>,
    ranks: &Ranks<N>,
) -> Result<Option<Tensor>>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let tokens = gradients.dys[0].rows();
    let Some(mut dh) = ranks.unwritten::<E>(tokens) else {
        return Ok(None);
    };
    if memory::is_dry_run() {
        return Ok(Some(dh));
    }
    let readers = gradients.readers::<E, P>(cuts)?;
    let values = dh.values_mut::<E>()?;
    for (at, linear) in linears.iter().enumerate() {
        let Some(low_rank) = linear.low_rank() else { continue };
        let mine = || cuts.iter().enumerate().filter(|(_, cut)| cut.linear == at);
        let bs = mine()
            .map(|(_, cut)| low_rank.up.rows(cut.first))
            .collect::<Result<Vec<_>>>()?;
        let terms = mine().zip(&bs).map(|((at, cut), b)| Term::<P> {
            left: Operand::depth_last(&*readers[at]),
            right: b.over_outputs(),
            depth: cut.width,
        });
        let out = Output::window(values, ranks.total, ranks.start(at));
        let scale = low_rank.scale as f32;
        one_product(tokens, ranks.of[at], terms.collect(), &Replace { out, scale });
    }
    Ok(Some(dh))
}
