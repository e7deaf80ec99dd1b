//! What adapters add to weights, and its gradients, some rows of the weight at a time.

use std::ops::Range;

use candle_core::Result;
use kernels::gemm::{
    OperandReader,
    epilogue::{Output, Replace},
    multiply::Multiply,
};
use memory::Buffer;

use super::{
    output_gradients::OutputGradients,
    products::{one_product, token_sum},
};
use crate::{
    linear::{cut::Cut, layer::Linear},
    operand::{ComputedRows, Stored},
    tensor::{Float, Tensor},
};

/// What the adapters of at most `N` layers add to their weights.
pub(super) struct Deltas<'a, const N: usize>([Option<Box<dyn ComputedRows + 'a>>; N]);

impl<'a, const N: usize> Deltas<'a, N> {
    pub(super) fn of(linears: &'a [Linear]) -> Result<Self> {
        let mut deltas = [const { None }; N];
        for (delta, linear) in deltas.iter_mut().zip(linears) {
            *delta = linear.delta().map(|delta| delta.rows()).transpose()?;
        }
        Ok(Self(deltas))
    }

    /// The rows that belong to a cut.
    pub(super) fn rows(&self, cut: &Cut) -> Option<Stored<'_>> {
        let of = self.0[cut.linear].as_deref()?;
        Some(Stored::Computed(Box::new(Rows { of, first: cut.first })))
    }
}

/// The rows of a matrix from `first` on.
struct Rows<'a> {
    of: &'a dyn ComputedRows,
    first: usize,
}

impl ComputedRows for Rows<'_> {
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        self.of.fill(self.first + row, cols, out);
    }
}

/// Elements of a weight whose gradients are held at a time, at most, if a row has no more.
const PART: usize = 1 << 18;

/// Adds the gradients of what is trained.
pub(super) fn accumulate_deltas<E: Float, P: Multiply, const N: usize>(
    linears: &mut [Linear],
    cuts: &[Cut; N],
    x: &Tensor,
    dys: &OutputGradients<N>,
) -> Result<()>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    let (tokens, inputs) = (x.rows(), x.cols());
    for (at, linear) in linears.iter_mut().enumerate() {
        let Some(delta) = linear.adapter.as_mut().and_then(|adapter| adapter.delta_mut()) else {
            continue;
        };
        let widths = cuts.iter().filter(|cut| cut.linear == at).map(|cut| cut.width);
        let rows = widths.max().unwrap_or(0).clamp(1, (PART / inputs).max(1));
        let mut gradients = delta.gradients()?;
        let mut part = Buffer::<f32>::unwritten(rows * inputs);
        for (index, cut) in cuts.iter().enumerate().filter(|(_, cut)| cut.linear == at) {
            for start in (0..cut.width).step_by(rows) {
                if memory::is_dry_run() {
                    break;
                }
                let count = rows.min(cut.width - start);
                let part = &mut part.values_mut()[..count * inputs];
                let (left, right) = (dys.reader::<E, P>(index, cut)?, Stored::tensor(x)?);
                let left = Columns { of: &*left, start };
                let out = Output::new(part, inputs);
                let term = token_sum::<P>(&left, &right, tokens);
                one_product(count, inputs, vec![term], &Replace { out, scale: 1.0 });
                gradients.add(cut.first + start, part)?;
            }
        }
        drop(part);
        let gradients = gradients.finish();
        delta.accumulate(gradients)?;
    }
    Ok(())
}

/// The columns of a matrix from `start` on.
struct Columns<'a, P> {
    of: &'a dyn OperandReader<P>,
    start: usize,
}

impl<P: Multiply> OperandReader<P> for Columns<'_, P> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        self.of.row(row, self.start + cols.start..self.start + cols.end, buffer)
    }

    fn lend(&self) -> Option<(&[P], usize)> {
        let (values, stride) = self.of.lend()?;
        Some((&values[self.start..], stride))
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        self.of.prefetch(row, self.start + cols.start..self.start + cols.end);
    }
}
