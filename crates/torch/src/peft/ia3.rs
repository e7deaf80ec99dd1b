//! IA3, as PEFT computes it (`tuners/ia3/layer.py` and `bnb.py`).

use super::base::{Base, BaseLayer};
use crate::tape::Tensor;

/// IA3's factors.
pub(crate) struct Ia3<'t> {
    /// One for each output, or for each input.
    pub factors: Tensor<'t>,
    pub scales_inputs: bool,
}

impl<'t> Ia3<'t> {
    pub(super) fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        // `1 * ia3_l.flatten()`.
        let factors = self.factors.reshape(&[self.factors.numel() as u32]).scale();
        let is_dense = matches!(layer.weight, Base::Dense(_));
        let result = match (is_dense, self.scales_inputs) {
            (true, true) => {
                let cast = input.to(self.factors.dtype());
                let scaled = cast.mul(&factors);
                let inner = scaled.to(input.dtype());
                drop(scaled);
                // Python's names for it and for the input before it last until the end.
                let result = layer.forward(&inner);
                drop((inner, cast));
                result
            }
            (true, false) => {
                let result = layer.forward(input);
                let scaled = result.mul(&factors);
                let output = scaled.to(result.dtype());
                drop((scaled, result));
                output
            }
            // Beside a quantised weight the input is float32, or autocast is on: specs refuse the rest.
            (false, true) => layer.forward(&input.mul(&factors)),
            (false, false) => layer.forward(input).mul(&factors),
        };
        match layer.weight {
            Base::FourBit(_) => result.copy(),
            Base::Dense(_) | Base::EightBit(_) => result,
        }
    }
}
