//! Outputs of layers, before scales and biases.

use candle_core::Result;
use kernels::gemm::{Epilogue, Operand, OperandReader, Segment, Term, multiply::Multiply, product};
use kernels::int8::Onto;

use super::{
    delta::Deltas,
    input_map::scaled_input,
    llm_int8::{QuantizedInput, Zeros},
    low_rank::Ranks,
};
use crate::{
    adapter::{InputMap, UpRows},
    linear::{cut::Cut, layer::Linear},
    operand::{Gathered, Stored},
    tensor::Tensor,
};

/// A layer's input, and what the layers' maps make of it.
pub(super) struct Inputs<'a, const N: usize> {
    pub(super) x: &'a Tensor,
    pub(super) maps: &'a [Option<Box<InputMap>>; N],
    /// The inputs of the layers whose maps multiply blocks.
    pub(super) mapped: [Option<Tensor>; N],
    /// What is added to the layers' weights.
    pub(super) deltas: Deltas<'a, N>,
}

/// Multiplies the input, as the layers' maps make it, with the weights, and adds what adapters add; `h` are the inner
/// products of low-rank terms. Each output has an epilogue. The products of a `quantized` input are added to those of
/// the columns that it leaves out.
pub(super) fn multiply<P: Multiply, const N: usize>(
    linears: &[Linear],
    outputs: &[(Cut, &dyn Epilogue)],
    Inputs {
        x,
        maps,
        mapped,
        deltas,
    }: &Inputs<N>,
    (ranks, h): (&Ranks<N>, Option<&Tensor>),
    quantized: Option<&QuantizedInput>,
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let reader = Stored::tensor(x)?;
    let of_weights = maps.iter().zip(mapped);
    let of_weights = of_weights.map(|(map, mapped)| -> Result<Option<Box<dyn OperandReader<P> + '_>>> {
        Ok(match (map.as_deref(), mapped) {
            (_, Some(mapped)) => Some(Box::new(Stored::tensor(mapped)?)),
            (Some(InputMap::Factors(factors)), None) => Some(scaled_input::<P>(x, factors)?),
            (_, None) => None,
        })
    });
    let of_weights = of_weights.collect::<Result<Vec<_>>>()?;
    let operands = outputs
        .iter()
        .map(|(cut, _)| CutOperands::of(linears, cut, deltas, (ranks, h)));
    let operands: Vec<CutOperands> = operands.collect::<Result<_>>()?;
    let rank = |at: usize| ranks.of[outputs[at].0.linear];
    let depths = |at: usize| (rank(at), operands[at].delta.is_some());
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
        let (operands, (cut, epilogue)) = (&operands[at], outputs[at]);
        let mut terms = Vec::with_capacity(2);
        if quantized.is_none() {
            terms.push(Term {
                left: Operand::depth_last(of_weights[cut.linear].as_deref().unwrap_or(&reader)),
                right: Operand::depth_last(&operands.weight),
                depth: x.cols(),
            });
        } else if !columns.is_empty() {
            terms.push(Term {
                left: Operand::depth_last(&outlying_inputs),
                right: Operand::depth_last(&outlying_weights[at]),
                depth: columns.len(),
            });
        }
        terms.extend(operands.delta.as_ref().map(|delta| Term {
            left: Operand::depth_last(&reader),
            right: Operand::depth_last(delta),
            depth: x.cols(),
        }));
        terms.extend(operands.low_rank.as_ref().map(|(h, b)| Term {
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
            .filter(|at| depths(**at) == depths(first))
            .map(|at| segment(*at))
            .collect();
        product(x.rows(), &alike);
        remaining.retain(|at| depths(*at) != depths(first));
    }
    Ok(())
}

/// The right operands of one output, and the left one of its low-rank term.
struct CutOperands<'a> {
    weight: Stored<'a>,
    /// What is added to the weight.
    delta: Option<Stored<'a>>,
    /// The inner product and the rows of B.
    low_rank: Option<(Stored<'a>, UpRows<'a>)>,
}

impl<'a> CutOperands<'a> {
    fn of<const N: usize>(
        linears: &'a [Linear],
        cut: &Cut,
        deltas: &'a Deltas<'_, N>,
        (ranks, h): (&Ranks<N>, Option<&'a Tensor>),
    ) -> Result<Self> {
        let linear = &linears[cut.linear];
        let low_rank = match (linear.low_rank(), h) {
            (Some(low_rank), Some(h)) => Some((ranks.window(h, cut.linear)?, low_rank.up.rows(cut.first)?)),
            _ => None,
        };
        Ok(Self {
            weight: Stored::weight(&linear.weight, cut.first)?,
            delta: deltas.rows(cut),
            low_rank,
        })
    }
}
