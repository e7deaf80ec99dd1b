//! The inner products of low-rank terms, those of several layers side by side.

use candle_core::Result;
use kernels::gemm::{
    Operand, OperandReader, Term,
    epilogue::{Output, Replace},
    multiply::Multiply,
};
use memory::Buffer;

use super::{
    masked::{Masked, Masks},
    products::one_product,
};
use crate::{
    adapter::LowRank,
    linear::layer::Linear,
    operand::{Matrix, Stack, Stored},
    pass::Pass,
    tensor::{Float, Tensor},
};

/// `scale · dropout(x) · Aᵀ` of each layer, side by side; `None` without low-rank terms.
pub(super) fn rank_products<E: Float, P: Multiply, const N: usize>(
    linears: &[Linear],
    ranks: &Ranks<N>,
    x: &Tensor,
    pass: &Pass,
) -> Result<Option<Tensor>>
where
    for<'a> Stored<'a>: OperandReader<P>,
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
        let input: &dyn OperandReader<P> = masked.as_ref().map_or(&x as &dyn OperandReader<P>, |masked| masked);
        let Some(a) = Stack::new(stacked(&linears[group.clone()])?) else {
            continue;
        };
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
pub(super) fn groups(linears: &[Linear], one_by_one: bool) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
    let step = if one_by_one { 1 } else { linears.len() };
    let count = linears.len();
    (0..count).step_by(step).map(move |at| at..at + step)
}

/// The ranks of layers, at most as many as outputs, whose inner products stand side by side.
pub(super) struct Ranks<const N: usize> {
    pub(super) of: [usize; N],
    pub(super) total: usize,
}

impl<const N: usize> Ranks<N> {
    pub(super) fn of(linears: &[Linear]) -> Self {
        let of = std::array::from_fn(|at| linears.get(at).map_or(0, Linear::rank));
        Self {
            total: of.iter().sum(),
            of,
        }
    }

    /// The column that a layer's part begins at.
    pub(super) fn start(&self, at: usize) -> usize {
        self.of[..at].iter().sum()
    }

    /// `[tokens, total]`; `None` without low-rank terms.
    pub(super) fn unwritten<E: Float>(&self, tokens: usize) -> Option<Tensor> {
        (self.total > 0).then(|| Tensor::new(Buffer::<E>::unwritten(tokens * self.total), (tokens, self.total)))
    }

    /// A layer's part of `[tokens, total]`.
    pub(super) fn window<'a>(&self, side_by_side: &'a Tensor, at: usize) -> Result<Stored<'a>> {
        Ok(Stored::Dense(Matrix::new(side_by_side)?.skip_columns(self.start(at))))
    }
}

/// Each A with its rank.
pub(super) fn stacked(linears: &[Linear]) -> Result<Vec<(usize, Stored<'_>)>> {
    let low_rank = linears.iter().filter_map(Linear::low_rank);
    low_rank
        .map(|low_rank| Ok((low_rank.rank(), low_rank.down.stored()?)))
        .collect()
}

/// True if some low-rank term's input is not its layer's own.
pub(super) fn is_masked(linears: &[Linear], pass: &Pass) -> bool {
    let mut low_rank = linears.iter().filter_map(Linear::low_rank);
    low_rank.any(|low_rank| low_rank.dropout.drops(pass))
}

pub(super) fn masks<'a>(low_rank: &LowRank, pass: &'a Pass, features: usize) -> Option<Masks<'a>> {
    low_rank.dropout.masks_of(pass, features).map(|of_sequence| Masks {
        sequences: &pass.sequences,
        of_sequence,
        features,
    })
}

/// The input of a layer's low-rank term, if that is not the layer's own.
pub(super) fn masked<'a>(x: &'a Stored<'a>, linear: &Linear, pass: &'a Pass, features: usize) -> Option<Masked<'a>> {
    let masks = masks(linear.low_rank()?, pass, features)?;
    Some(Masked { x, masks })
}
