//! Outputs of layers, before scales and biases; and their gradients as the products behind a scale see them.

use candle_core::Result;
use kernels::gemm::{
    Epilogue, Operand, OperandReader, Segment, Term, columns::ScaledColumns, multiply::Multiply, product,
};
use kernels::int8::Onto;

use super::{
    llm_int8::{QuantizedInput, Zeros},
    low_rank::Ranks,
};
use crate::{
    adapter::{OutputScale, UpRows},
    linear::{cut::Cut, layer::Linear},
    operand::{Gathered, Stored},
    tensor::{Float, Tensor, for_format},
};

/// Multiplies the input, scaled by the layers' `factors`, with the weights and adds the low-rank terms; `h` are the
/// terms' inner products. Each output has an epilogue. The products of a `quantized` input are added to those of the
/// columns that it leaves out.
pub(super) fn multiply<P: Multiply, const N: usize>(
    linears: &[Linear],
    outputs: &[(Cut, &dyn Epilogue)],
    (x, factors): (&Tensor, &[Option<Box<Tensor>>; N]),
    (ranks, h): (&Ranks<N>, Option<&Tensor>),
    quantized: Option<&QuantizedInput>,
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let reader = Stored::tensor(x)?;
    let scaled = factors.iter().map(|factors| {
        let factors = factors.as_deref();
        factors.map(|factors| scaled_input::<P>(x, factors)).transpose()
    });
    let scaled = scaled.collect::<Result<Vec<_>>>()?;
    let operands = outputs.iter().map(|(cut, _)| CutOperands::of(linears, cut, ranks, h));
    let operands: Vec<CutOperands> = operands.collect::<Result<_>>()?;
    let rank = |at: usize| ranks.of[outputs[at].0.linear];
    let columns = quantized.map_or(&[][..], |quantized| &quantized.outliers[..]);
    let gathered = |matrix| Gathered { matrix, columns };
    let outlying_inputs = gathered(&reader);
    let outlying_weights: Vec<Gathered> = operands.iter().map(|operands| gathered(&operands.weight)).collect();
    let onto: Vec<Onto> = match quantized {
        Some(quantized) => {
            let onto = outputs
                .iter()
                .map(|(cut, then)| quantized.onto(&linears[cut.linear], *cut, *then));
            onto.collect::<Result<_>>()?
        }
        None => Vec::new(),
    };
    let segment = |at: usize| {
        let (CutOperands { weight, low_rank }, (cut, epilogue)) = (&operands[at], outputs[at]);
        let mut terms = Vec::with_capacity(2);
        if quantized.is_none() {
            terms.push(Term {
                left: Operand::depth_last(scaled[cut.linear].as_deref().unwrap_or(&reader)),
                right: Operand::depth_last(weight),
                depth: x.cols(),
            });
        } else if !columns.is_empty() {
            terms.push(Term {
                left: Operand::depth_last(&outlying_inputs),
                right: Operand::depth_last(&outlying_weights[at]),
                depth: columns.len(),
            });
        }
        terms.extend(low_rank.as_ref().map(|(h, b)| Term {
            left: Operand::depth_last(h),
            right: b.over_rank(),
            depth: rank(at),
        }));
        if terms.is_empty() {
            terms.push(Term {
                left: Operand::depth_last(&Zeros),
                right: Operand::depth_last(&Zeros),
                depth: 1,
            });
        }
        let epilogue = onto.get(at).map_or(epilogue, |onto| onto as &dyn Epilogue);
        Segment {
            cols: cut.width,
            terms,
            epilogue,
        }
    };
    // Segments of a product have the same depths.
    let mut remaining: Vec<usize> = (0..outputs.len()).collect();
    while let Some(&first) = remaining.first() {
        let alike: Vec<Segment<P>> = remaining
            .iter()
            .filter(|at| rank(**at) == rank(first))
            .map(|at| segment(*at))
            .collect();
        product(x.rows(), &alike);
        remaining.retain(|at| rank(*at) != rank(first));
    }
    Ok(())
}

/// The input of a layer's product, each column multiplied by its factor.
fn scaled_input<'a, P: Multiply>(x: &'a Tensor, factors: &'a Tensor) -> Result<Box<dyn OperandReader<P> + 'a>> {
    let factors = factors.values::<f32>()?;
    for_format!(x.dtype(), E => Ok(Box::new(ScaledColumns::new(x.values::<E>()?, factors))))
}

/// The right operands of one output, and the left one of its low-rank term.
struct CutOperands<'a> {
    weight: Stored<'a>,
    /// The inner product and the rows of B.
    low_rank: Option<(Stored<'a>, UpRows<'a>)>,
}

impl<'a> CutOperands<'a> {
    fn of<const N: usize>(linears: &'a [Linear], cut: &Cut, ranks: &Ranks<N>, h: Option<&'a Tensor>) -> Result<Self> {
        let linear = &linears[cut.linear];
        let low_rank = match (linear.low_rank(), h) {
            (Some(low_rank), Some(h)) => Some((ranks.window(h, cut.linear)?, low_rank.up.rows(cut.first)?)),
            _ => None,
        };
        Ok(Self {
            weight: Stored::weight(&linear.weight, cut.first)?,
            low_rank,
        })
    }
}

/// The gradients of the outputs, and the outputs' factors.
pub(super) struct OutputGradients<'a, const N: usize> {
    pub(super) dys: [&'a Tensor; N],
    pub(super) scales: &'a [Option<Box<OutputScale>>; N],
}

impl<const N: usize> OutputGradients<'_, N> {
    /// [`Self::reader`] of every output.
    pub(super) fn readers<E: Float, P: Multiply>(&self, cuts: &[Cut; N]) -> Result<Vec<Box<dyn OperandReader<P> + '_>>>
    where
        for<'a> Stored<'a>: OperandReader<P>,
    {
        let readers = cuts.iter().enumerate();
        readers.map(|(at, cut)| self.reader::<E, P>(at, cut)).collect()
    }

    /// The gradient of the sums that became output `index`: that of the output, each column multiplied by its factor.
    pub(super) fn reader<E: Float, P: Multiply>(
        &self,
        index: usize,
        cut: &Cut,
    ) -> Result<Box<dyn OperandReader<P> + '_>>
    where
        for<'a> Stored<'a>: OperandReader<P>,
    {
        let dy = self.dys[index];
        Ok(match &self.scales[cut.linear] {
            Some(scale) => Box::new(ScaledColumns::new(dy.values::<E>()?, factors(scale, cut)?)),
            None => Box::new(Stored::tensor(dy)?),
        })
    }
}

/// The factors of an output.
pub(super) fn factors<'a>(scale: &'a OutputScale, cut: &Cut) -> Result<&'a [f32]> {
    Ok(&scale.factors.values::<f32>()?[cut.first..][..cut.width])
}
