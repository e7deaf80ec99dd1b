//! The maps of layers' inputs: mapped inputs, and the gradients of the maps.

use candle_core::Result;
use kernels::{
    columns,
    gemm::{
        Epilogue, Operand, OperandReader, Segment, Term,
        columns::{ColumnDots, ScaledColumns, blocks},
        epilogue::{Output, Replace, windows},
        multiply::Multiply,
        product,
    },
};
use memory::Buffer;

use super::{
    output_gradients::OutputGradients,
    products::{one_product, token_sum},
};
use crate::{
    adapter::InputMap,
    linear::{cut::Cut, layer::Linear},
    operand::{Matrix, Stored},
    tensor::{Float, Tensor, for_format},
};

/// The inputs of layers whose maps multiply blocks, in the format of the input; `None` for others.
pub(super) fn mapped_blocks<E: Float, P: Multiply, const N: usize>(
    x: &Tensor,
    maps: &[Option<Box<InputMap>>; N],
) -> Result<[Option<Tensor>; N]>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let mut mapped = [const { None }; N];
    for (mapped, map) in mapped.iter_mut().zip(maps) {
        let Some(matrices) = map.as_deref().and_then(InputMap::blocks) else {
            continue;
        };
        let mut out = Tensor::new(Buffer::<E>::unwritten(x.len()), (x.rows(), x.cols()));
        if !memory::is_dry_run() {
            multiply_blocks::<E, P>(x, matrices, false, out.values_mut::<E>()?)?;
        }
        *mapped = Some(out);
    }
    Ok(mapped)
}

/// `out = x M` block by block, or `x Mᵀ`.
pub(super) fn multiply_blocks<E: Float, P: Multiply>(
    x: &Tensor,
    matrices: &Tensor,
    is_transposed: bool,
    out: &mut [E],
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (columns, size) = (x.cols(), matrices.cols());
    let starts = (0..columns).step_by(size);
    let lefts = parts(x, size)?;
    let rights = starts.map(|start| Ok(Matrix::new(matrices)?.skip_rows(start % matrices.rows())));
    let rights = rights.collect::<Result<Vec<_>>>()?;
    let outs = windows(out, columns, size).into_iter();
    let epilogues: Vec<_> = outs.map(|out| Replace { out, scale: 1.0 }).collect();
    let segments = lefts.iter().zip(&rights).zip(&epilogues);
    let segments = segments.map(|((left, right), epilogue)| Segment {
        cols: size,
        terms: vec![Term::<P> {
            left: Operand::depth_last(left),
            right: match is_transposed {
                true => Operand::depth_last(right),
                false => Operand::depth_first(right),
            },
            depth: size,
        }],
        epilogue: epilogue as &dyn Epilogue,
    });
    product(x.rows(), &segments.collect::<Vec<_>>());
    Ok(())
}

/// The input of a layer's product, each column multiplied by its factor.
pub(super) fn scaled_input<'a, P: Multiply>(
    x: &'a Tensor,
    factors: &'a Tensor,
) -> Result<Box<dyn OperandReader<P> + 'a>> {
    let factors = factors.values::<f32>()?;
    for_format!(x.dtype(), E => Ok(Box::new(ScaledColumns::new(x.values::<E>()?, factors))))
}

/// The terms `dy · W` of one layer, for each of its outputs.
pub(super) struct WeightTerms<'a, P> {
    weights: Vec<(Stored<'a>, usize)>,
    gradients: Vec<Box<dyn OperandReader<P> + 'a>>,
}

impl<'a, P: Multiply> WeightTerms<'a, P>
where
    for<'s> Stored<'s>: OperandReader<P>,
{
    /// Those of the layer with index `at`.
    pub(super) fn of<E: Float, const N: usize>(
        at: usize,
        linear: &'a Linear,
        cuts: &[Cut; N],
        dys: &'a OutputGradients<N>,
    ) -> Result<Self> {
        let mine = || cuts.iter().enumerate().filter(|(_, cut)| cut.linear == at);
        let weights = mine().map(|(_, cut)| Ok((Stored::weight(&linear.weight, cut.first)?, cut.width)));
        let gradients = mine().map(|(index, cut)| dys.reader::<E, P>(index, cut));
        Ok(Self {
            weights: weights.collect::<Result<_>>()?,
            gradients: gradients.collect::<Result<_>>()?,
        })
    }

    pub(super) fn terms(&self) -> Vec<Term<'_, P>> {
        let pairs = self.weights.iter().zip(&self.gradients);
        let terms = pairs.map(|((weight, width), dy)| Term {
            left: Operand::depth_last(&**dy),
            right: Operand::depth_first(weight),
            depth: *width,
        });
        terms.collect()
    }
}

/// The gradients of the maps. That of the mapped input is computed again.
pub(super) fn accumulate_input_maps<E: Float, P: Multiply, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: &OutputGradients<N>,
    maps: &[Option<Box<InputMap>>; N],
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    for (at, linear) in linears.iter_mut().enumerate() {
        let gradient = match maps[at].as_deref() {
            None => continue,
            Some(InputMap::Factors(_)) => factor_gradients::<E, P, N>(at, linear, cuts, x, dys)?,
            Some(InputMap::Blocks(matrices)) => block_gradients::<E, P, N>(at, linear, cuts, (x, matrices), dys)?,
        };
        if let Some(adapter) = &mut linear.adapter {
            adapter.accumulate_input_map(gradient)?;
        }
    }
    Ok(())
}

/// A factor's gradient is the dot product of its input with the gradient of the scaled input.
fn factor_gradients<E: Float, P: Multiply, const N: usize>(
    at: usize,
    linear: &Linear,
    cuts: &[Cut; N],
    x: &Tensor,
    dys: &OutputGradients<N>,
) -> Result<Tensor>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (x.rows(), x.cols());
    let rows = blocks(tokens);
    let mut dots = Buffer::<f32>::unwritten(rows * inputs);
    let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(rows, inputs));
    let mut gradient = Tensor::new(Buffer::<f32>::unwritten(inputs), inputs);
    if !memory::is_dry_run() {
        let terms = WeightTerms::<P>::of::<E, N>(at, linear, cuts, dys)?;
        let out = Output::new(dots.values_mut(), inputs);
        let other = x.values::<E>()?;
        one_product(tokens, inputs, terms.terms(), &ColumnDots { other, out });
        columns::sums(dots.values(), scratch.values_mut(), gradient.values_mut()?);
    }
    Ok(gradient)
}

/// A matrix's gradient is the product of its inputs with the gradients of what it makes of them.
fn block_gradients<E: Float, P: Multiply, const N: usize>(
    at: usize,
    linear: &Linear,
    cuts: &[Cut; N],
    (x, matrices): (&Tensor, &Tensor),
    dys: &OutputGradients<N>,
) -> Result<Tensor>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs, size) = (x.rows(), x.cols(), matrices.cols());
    let mut of_mapped = Tensor::new(Buffer::<E>::unwritten(x.len()), (tokens, inputs));
    let mut gradient = Tensor::new(Buffer::<f32>::unwritten(matrices.len()), matrices.shape());
    if memory::is_dry_run() {
        return Ok(gradient);
    }
    let terms = WeightTerms::<P>::of::<E, N>(at, linear, cuts, dys)?;
    let out = Output::new(of_mapped.values_mut::<E>()?, inputs);
    one_product(tokens, inputs, terms.terms(), &Replace { out, scale: 1.0 });
    let (lefts, rights) = (parts(x, size)?, parts(&of_mapped, size)?);
    let pairs: Vec<_> = lefts.iter().zip(&rights).collect();
    // A matrix of all blocks has the sum over the blocks.
    let per_matrix = pairs.len() * size / matrices.rows();
    let outs = gradient.values_mut::<f32>()?.chunks_mut(size * size);
    let epilogues = outs.map(|out| Replace {
        out: Output::new(out, size),
        scale: 1.0,
    });
    let epilogues: Vec<_> = epilogues.collect();
    let segments = pairs.chunks(per_matrix).zip(&epilogues);
    let segments = segments.map(|(pairs, epilogue)| Segment {
        cols: size,
        terms: pairs
            .iter()
            .map(|(left, right)| token_sum::<P>(*left, *right, tokens))
            .collect(),
        epilogue: epilogue as &dyn Epilogue,
    });
    product(size, &segments.collect::<Vec<_>>());
    Ok(gradient)
}

/// The blocks of columns of a tensor.
fn parts(tensor: &Tensor, size: usize) -> Result<Vec<Matrix<'_>>> {
    let starts = (0..tensor.cols()).step_by(size);
    starts
        .map(|start| Ok(Matrix::new(tensor)?.skip_columns(start)))
        .collect()
}
