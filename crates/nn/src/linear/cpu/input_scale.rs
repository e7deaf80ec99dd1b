//! The gradients of the inputs' factors.

use candle_core::Result;
use kernels::{
    columns,
    gemm::{
        Operand, OperandReader, Term,
        columns::{ColumnDots, blocks},
        epilogue::Output,
        multiply::Multiply,
    },
};
use memory::Buffer;

use super::{outputs::OutputGradients, products::one_product};
use crate::{
    linear::{cut::Cut, layer::Linear},
    operand::Stored,
    tensor::{Float, Tensor},
};

/// A factor's gradient is the dot product of its input with the gradient of the scaled input, which is computed again.
pub(super) fn accumulate_input_scales<E: Float, P: Multiply, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: &OutputGradients<N>,
    is_scaled: [bool; N],
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (x.rows(), x.cols());
    for (at, linear) in linears.iter_mut().enumerate().filter(|(at, _)| is_scaled[*at]) {
        let rows = blocks(tokens);
        let mut dots = Buffer::<f32>::unwritten(rows * inputs);
        let mut scratch = Buffer::<f32>::unwritten(columns::scratch_len(rows, inputs));
        let mut gradient = Tensor::new(Buffer::<f32>::unwritten(inputs), inputs);
        if !memory::is_dry_run() {
            let mine = || cuts.iter().enumerate().filter(|(_, cut)| cut.linear == at);
            let weights = mine().map(|(_, cut)| Stored::weight(&linear.weight, cut.first));
            let weights = weights.collect::<Result<Vec<_>>>()?;
            let readers = mine().map(|(index, cut)| dys.reader::<E, P>(index, cut));
            let readers = readers.collect::<Result<Vec<_>>>()?;
            let terms = mine().zip(&weights).zip(&readers).map(|(((_, cut), weight), dy)| Term {
                left: Operand::depth_last(&**dy),
                right: Operand::depth_first(weight),
                depth: cut.width,
            });
            let out = Output::new(dots.values_mut(), inputs);
            let other = x.values::<E>()?;
            one_product(tokens, inputs, terms.collect(), &ColumnDots { other, out });
            columns::sums(dots.values(), scratch.values_mut(), gradient.values_mut()?);
        }
        if let Some(adapter) = &mut linear.adapter {
            adapter.accumulate_input_scale(gradient)?;
        }
    }
    Ok(())
}
