//! VeRA, as PEFT computes it (`tuners/vera/layer.py`).

use super::base::BaseLayer;
use crate::tape::Tensor;

/// VeRA's vectors, and the factors that all layers share.
pub(crate) struct Vera<'t> {
    /// The vector of the outputs.
    pub b: Tensor<'t>,
    /// The vector between the factors.
    pub d: Tensor<'t>,
    /// `[rank, most inputs]` and `[most outputs, rank]`.
    pub shared: [Tensor<'t>; 2],
    pub dropout: bool,
}

impl<'t> Vera<'t> {
    pub(super) fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        let result = layer.forward_copied(input);
        let expected = result.dtype();
        let [a, b] = &self.shared;
        let [rows, columns] = layer.dims;
        let (a, b) = (a.slice_last(columns), b.first_rows(rows));
        let cast = input.to(self.d.dtype());
        let dropped = if self.dropout { cast.dropout() } else { cast.clone() };
        let inner = dropped.linear(&a, None);
        drop(dropped);
        let scaled = self.d.mul(&inner);
        drop(inner);
        let outer = scaled.linear(&b, None);
        drop(scaled);
        let delta = self.b.mul(&outer);
        drop(outer);
        let sum = result.add(&delta);
        drop(delta);
        drop(result);
        let output = sum.to(expected);
        drop(sum);
        let output = output.to(input.dtype());
        drop(cast);
        output
    }
}
