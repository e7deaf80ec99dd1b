//! Linear layers on the CPU. Weights are dequantised panel by panel while they are multiplied, the adapter's second
//! product is a term of the weight's, and layers that share an input share the work on it.

use candle_core::{DType, Result};

use super::{
    layer::Linear,
    projection::{Carried, Cut},
};
use crate::kernels::{
    columns,
    gemm::{
        Operand, Segment, Source, Store, Term,
        multiply::Multiply,
        product,
        store::{AddScaled, LinearCombination, Output, Replace, Transposed},
    },
};
use crate::memory::{self, Buffer};
use crate::nn::{
    adapter::LowRank,
    convert::{self, Converted},
    operand::{Masked, Masks, Matrix, Stack, Stored},
    param::Param,
    pass::Pass,
    tensor::{Float, Tensor, for_format, for_number},
    weight::Weight,
};

/// The outputs, in the dtype of `x`; `residual`, of the only output's shape, is added to it.
pub(super) fn forward<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    residual: Option<&Tensor>,
    pass: &Pass,
) -> Result<[Tensor; N]> {
    for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
        forward_as::<E, P, N>(linears, cuts, x, residual, pass)
    }))
}

fn forward_as<E: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    residual: Option<&Tensor>,
    pass: &Pass,
) -> Result<[Tensor; N]>
where
    for<'a> Stored<'a>: Source<P>,
{
    let ranks = Ranks::<N>::of(linears);
    let h = rank_products::<E, P, N>(linears, &ranks, x, pass)?;
    let mut biases: [Option<Converted>; N] = [const { None }; N];
    for (bias, linear) in biases.iter_mut().zip(linears) {
        *bias = linear.bias.as_ref().map(Param::f32).transpose()?;
    }
    let mut ys = cuts.map(|cut| Tensor::new(Buffer::<E>::unwritten(x.rows() * cut.width), (x.rows(), cut.width)));
    if memory::is_dry_run() {
        return Ok(ys);
    }
    let residual = residual.map(Tensor::values::<E>).transpose()?;
    let source = Stored::tensor(x)?;
    let operands = cuts.iter().map(|cut| CutOperands::of(linears, cut, &ranks, h.as_ref()));
    let operands: Vec<CutOperands> = operands.collect::<Result<_>>()?;
    let mut stores: Vec<Box<dyn Store + '_>> = Vec::with_capacity(N);
    for (y, cut) in ys.iter_mut().zip(cuts) {
        let out = Output::new(y.values_mut::<E>()?, cut.width);
        let bias = match &biases[cut.linear] {
            Some(bias) => Some(&bias.values::<f32>()?[cut.first..cut.first + cut.width]),
            None => None,
        };
        stores.push(if bias.is_none() && residual.is_none() {
            Box::new(Replace { out, scale: 1.0 })
        } else {
            let scale = None;
            Box::new(LinearCombination {
                out,
                scale,
                bias,
                residual,
            })
        });
    }
    let segment = |at: usize| {
        let CutOperands { weight, low_rank } = &operands[at];
        let mut terms = vec![Term {
            left: Operand::depth_last(&source),
            right: Operand::depth_last(weight),
            depth: x.cols(),
        }];
        terms.extend(low_rank.as_ref().map(|(h, b)| Term {
            left: Operand::depth_last(h),
            right: Operand::depth_last(b),
            depth: ranks.of[cuts[at].linear],
        }));
        Segment {
            cols: cuts[at].width,
            terms,
            store: &*stores[at],
        }
    };
    // Segments of a product have the same depths.
    let rank = |at: usize| ranks.of[cuts[at].linear];
    let mut remaining: Vec<usize> = (0..N).collect();
    while let Some(&first) = remaining.first() {
        let alike: Vec<Segment<P>> = remaining
            .iter()
            .filter(|at| rank(**at) == rank(first))
            .map(|at| segment(*at))
            .collect();
        product(x.rows(), &alike);
        remaining.retain(|at| rank(*at) != rank(first));
    }
    drop((stores, operands));
    Ok(ys)
}

/// The right operands of one output, and the left one of its low-rank term.
struct CutOperands<'a> {
    weight: Stored<'a>,
    /// The inner product and the rows of B.
    low_rank: Option<(Stored<'a>, Stored<'a>)>,
}

impl<'a> CutOperands<'a> {
    fn of<const N: usize>(linears: &'a [Linear], cut: &Cut, ranks: &Ranks<N>, h: Option<&'a Tensor>) -> Result<Self> {
        let linear = &linears[cut.linear];
        let low_rank = match (linear.low_rank(), h) {
            (Some(low_rank), Some(h)) => Some((ranks.window(h, cut.linear)?, rows(&low_rank.b.value, cut)?)),
            _ => None,
        };
        Ok(Self {
            weight: Stored::weight(&linear.weight, cut.first)?,
            low_rank,
        })
    }
}

/// The rows of a matrix that belong to a cut.
fn rows<'a>(matrix: &'a Tensor, cut: &Cut) -> Result<Stored<'a>> {
    Ok(Stored::Dense(Matrix::new(matrix)?.skip_rows(cut.first)))
}

/// The gradient of the input in `dtype`, summed over the outputs; and that of the low-rank terms' inner products, for
/// [`accumulate`].
pub(super) fn input_gradient<const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
    pass: &Pass,
    dtype: DType,
) -> Result<(Tensor, Carried)> {
    if is_masked(linears, pass) && dtype != DType::F32 {
        let (dx, carried) = input_gradient(linears, cuts, dys, pass, DType::F32)?;
        return Ok((convert::into_narrow(dx, dtype)?, carried));
    }
    for_format!(dys[0].dtype(), E => for_number!(dys[0].dtype(), P => {
        for_format!(dtype, O => input_gradient_as::<E, O, P, N>(linears, cuts, dys, pass))
    }))
}

fn input_gradient_as<E: Float, O: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    cuts: &[Cut; N],
    dys: [&Tensor; N],
    pass: &Pass,
) -> Result<(Tensor, Carried)>
where
    for<'a> Stored<'a>: Source<P>,
{
    let (tokens, inputs) = (dys[0].rows(), linears[0].weight.cols());
    let ranks = Ranks::<N>::of(linears);
    let mut dh = ranks.unwritten::<E>(tokens);
    let mut dx = Tensor::new(Buffer::<O>::unwritten(tokens * inputs), (tokens, inputs));
    if memory::is_dry_run() {
        return Ok((dx, Carried { dh }));
    }
    let sources = dys.iter().map(|dy| Stored::tensor(dy)).collect::<Result<Vec<_>>>()?;
    if let Some(dh) = &mut dh {
        let values = dh.values_mut::<E>()?;
        for (at, linear) in linears.iter().enumerate() {
            let Some(low_rank) = linear.low_rank() else { continue };
            let mine = || cuts.iter().enumerate().filter(|(_, cut)| cut.linear == at);
            let bs = mine()
                .map(|(_, cut)| rows(&low_rank.b.value, cut))
                .collect::<Result<Vec<_>>>()?;
            let terms = mine().zip(&bs).map(|((at, cut), b)| Term::<P> {
                left: Operand::depth_last(&sources[at]),
                right: Operand::depth_first(b),
                depth: cut.width,
            });
            let out = Output::window(values, ranks.total, ranks.start(at));
            let scale = low_rank.scale as f32;
            one_product(tokens, ranks.of[at], terms.collect(), &Replace { out, scale });
        }
    }
    let weights = cuts
        .iter()
        .map(|cut| Stored::weight(&linears[cut.linear].weight, cut.first));
    let weights: Vec<Stored> = weights.collect::<Result<_>>()?;
    let cut_terms = sources.iter().zip(&weights).zip(cuts);
    let cut_terms = cut_terms.map(|((dy, weight), cut)| Term {
        left: Operand::depth_last(dy),
        right: Operand::depth_first(weight),
        depth: cut.width,
    });
    let mut terms: Vec<Term<P>> = cut_terms.collect();
    let masked = is_masked(linears, pass);
    let a = Stack::new(stacked(linears)?);
    let whole = dh.as_ref().map(Stored::tensor).transpose()?;
    terms.extend(whole.as_ref().filter(|_| !masked).map(|dh| Term {
        left: Operand::depth_last(dh),
        right: Operand::depth_first(&a),
        depth: ranks.total,
    }));
    let out = Output::new(dx.values_mut::<O>()?, inputs);
    one_product(tokens, inputs, terms, &Replace { out, scale: 1.0 });
    if let Some(dh) = dh.as_ref().filter(|_| masked) {
        for (at, linear) in linears.iter().enumerate() {
            let Some(low_rank) = linear.low_rank() else { continue };
            let (dh, a) = (ranks.window(dh, at)?, Stored::tensor(&low_rank.a.value)?);
            let masks = masks(low_rank, pass, inputs);
            let term = Term::<P> {
                left: Operand::depth_last(&dh),
                right: Operand::depth_first(&a),
                depth: ranks.of[at],
            };
            let factor = |row, col| masks.as_ref().map_or(1.0, |masks| masks.factor(row, col));
            let out = Output::new(dx.values_mut::<O>()?, inputs);
            one_product(tokens, inputs, vec![term], &AddScaled { out, factor });
        }
    }
    Ok((dx, Carried { dh }))
}

/// Adds the gradients of what is trained.
pub(super) fn accumulate<const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: [&Tensor; N],
    Carried { dh }: Carried,
    pass: &Pass,
) -> Result<()> {
    for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
        accumulate_biases::<E, N>(linears, cuts, dys)?;
        accumulate_weights::<P, N>(linears, cuts, x, dys)?;
        match dh {
            Some(dh) => accumulate_low_rank::<E, P, N>(linears, cuts, x, dys, &dh, pass),
            None => Ok(()),
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
    for<'a> Stored<'a>: Source<P>,
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
            let source = Stored::tensor(x)?;
            for (cut, dy) in cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == at) {
                let dy = Stored::tensor(dy)?;
                let term = token_sum::<P>(&dy, &source, tokens);
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
    dys: [&Tensor; N],
    dh: &Tensor,
    pass: &Pass,
) -> Result<()>
where
    for<'a> Stored<'a>: Source<P>,
{
    let ranks = Ranks::<N>::of(linears);
    let Some(h) = rank_products::<E, P, N>(linears, &ranks, x, pass)? else {
        return Ok(());
    };
    let (tokens, inputs) = (x.rows(), x.cols());
    let mut das = Buffer::<f32>::unwritten(ranks.total * inputs);
    if !memory::is_dry_run() {
        let source = Stored::tensor(x)?;
        // With dropout, each layer has its own input; without, the rows of all A's gradients are one product.
        for group in groups(linears, is_masked(linears, pass)) {
            let rows: usize = ranks.of[group.clone()].iter().sum();
            if rows == 0 {
                continue;
            }
            let masked = masked(&source, &linears[group.start], pass, inputs);
            let input: &dyn Source<P> = masked.as_ref().map_or(&source as &dyn Source<P>, |masked| masked);
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
    let mut start = 0;
    for (at, linear) in linears.iter_mut().enumerate() {
        let (rank, outputs) = (ranks.of[at], linear.weight.rows());
        let Some(adapter) = &mut linear.adapter else { continue };
        let mut db = Tensor::new(Buffer::<f32>::unwritten(outputs * rank), (outputs, rank));
        if !memory::is_dry_run() {
            let h = ranks.window(&h, at)?;
            for (cut, dy) in cuts.iter().zip(dys).filter(|(cut, _)| cut.linear == at) {
                let dy = Stored::tensor(dy)?;
                let term = token_sum::<P>(&h, &dy, tokens);
                let db = &mut db.values_mut::<f32>()?[cut.first * rank..][..cut.width * rank];
                let out = Output::new(db, rank);
                one_product(rank, cut.width, vec![term], &Transposed { out });
            }
        }
        let da = Tensor::written((rank, inputs), |da: &mut [f32]| {
            da.copy_from_slice(&das.values()[start..start + rank * inputs]);
        });
        start += rank * inputs;
        let low_rank = adapter.low_rank_mut();
        low_rank.a.accumulate(da)?;
        low_rank.b.accumulate(db)?;
    }
    Ok(())
}

/// `left ᵀ · right`, both `[tokens, …]`.
fn token_sum<'a, P>(left: &'a dyn Source<P>, right: &'a dyn Source<P>, tokens: usize) -> Term<'a, P> {
    Term {
        left: Operand::depth_first(left),
        right: Operand::depth_first(right),
        depth: tokens,
    }
}

fn one_product<P: Multiply>(rows: usize, cols: usize, terms: Vec<Term<P>>, store: &dyn Store) {
    product(rows, &[Segment { cols, terms, store }]);
}

/// `scale · dropout(x) · Aᵀ` of each layer, side by side; `None` without low-rank terms.
fn rank_products<E: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    ranks: &Ranks<N>,
    x: &Tensor,
    pass: &Pass,
) -> Result<Option<Tensor>>
where
    for<'a> Stored<'a>: Source<P>,
{
    let Some(mut h) = ranks.unwritten::<E>(x.rows()) else {
        return Ok(None);
    };
    if memory::is_dry_run() {
        return Ok(Some(h));
    }
    let (tokens, inputs) = (x.rows(), x.cols());
    let values = h.values_mut::<E>()?;
    let x = Stored::tensor(x)?;
    let scale = |linear: &Linear| linear.low_rank().map(|low_rank| low_rank.scale);
    let is_alike = linears.iter().all(|linear| scale(linear) == scale(&linears[0]));
    for group in groups(linears, is_masked(linears, pass) || !is_alike) {
        let Some(low_rank) = linears[group.start].low_rank() else {
            continue;
        };
        let masked = masked(&x, &linears[group.start], pass, inputs);
        let input: &dyn Source<P> = masked.as_ref().map_or(&x as &dyn Source<P>, |masked| masked);
        let a = Stack::new(stacked(&linears[group.clone()])?);
        let term = Term {
            left: Operand::depth_last(input),
            right: Operand::depth_last(&a),
            depth: inputs,
        };
        let cols = ranks.of[group.clone()].iter().sum();
        let out = Output::window(values, ranks.total, ranks.start(group.start));
        let scale = low_rank.scale as f32;
        one_product(tokens, cols, vec![term], &Replace { out, scale });
    }
    Ok(Some(h))
}

/// The layers one by one, or all together.
fn groups(linears: &[Linear], one_by_one: bool) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
    let step = if one_by_one { 1 } else { linears.len() };
    let count = linears.len();
    (0..count).step_by(step).map(move |at| at..at + step)
}

/// The ranks of layers, at most as many as outputs, whose inner products stand side by side.
struct Ranks<const N: usize> {
    of: [usize; N],
    total: usize,
}

impl<const N: usize> Ranks<N> {
    fn of(linears: &[Linear]) -> Self {
        let of = std::array::from_fn(|at| linears.get(at).map_or(0, Linear::rank));
        Self {
            total: of.iter().sum(),
            of,
        }
    }

    /// The column that a layer's part begins at.
    fn start(&self, at: usize) -> usize {
        self.of[..at].iter().sum()
    }

    /// `[tokens, total]`; `None` without low-rank terms.
    fn unwritten<E: Float>(&self, tokens: usize) -> Option<Tensor> {
        (self.total > 0).then(|| Tensor::new(Buffer::<E>::unwritten(tokens * self.total), (tokens, self.total)))
    }

    /// A layer's part of `[tokens, total]`.
    fn window<'a>(&self, side_by_side: &'a Tensor, at: usize) -> Result<Stored<'a>> {
        Ok(Stored::Dense(Matrix::new(side_by_side)?.skip_columns(self.start(at))))
    }
}

/// Each A with its rank.
fn stacked(linears: &[Linear]) -> Result<Vec<(usize, Stored<'_>)>> {
    let low_rank = linears.iter().filter_map(Linear::low_rank);
    low_rank
        .map(|low_rank| Ok((low_rank.rank(), Stored::tensor(&low_rank.a.value)?)))
        .collect()
}

/// True if some low-rank term's input is not its layer's own.
fn is_masked(linears: &[Linear], pass: &Pass) -> bool {
    let mut low_rank = linears.iter().filter_map(Linear::low_rank);
    low_rank.any(|low_rank| low_rank.dropout_of(pass).is_some())
}

fn masks(low_rank: &LowRank, pass: &Pass, features: usize) -> Option<Masks> {
    low_rank.dropout.masks(pass).map(|samples| Masks {
        samples,
        len: pass.len,
        features,
    })
}

/// The input of a layer's low-rank term, if that is not the layer's own.
fn masked<'a>(x: &'a Stored<'a>, linear: &Linear, pass: &Pass, features: usize) -> Option<Masked<'a>> {
    let masks = masks(linear.low_rank()?, pass, features)?;
    Some(Masked { x, masks })
}
