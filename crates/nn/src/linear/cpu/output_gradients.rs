//! The gradients of outputs, as the products behind a scale see them.

use candle_core::Result;
use kernels::gemm::{OperandReader, columns::ScaledColumns, multiply::Multiply};

use crate::{
    adapter::OutputScale,
    linear::cut::Cut,
    operand::Stored,
    tensor::{Float, Tensor},
};

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
