//! IA3, as PEFT computes it (`tuners/ia3/layer.py` and `bnb.py`).

use super::base::{Base, BaseLayer};
use super::interface::Adapter;
use super::place::Place;
use crate::tape::Tensor;

/// IA3's factors.
pub(super) struct Ia3<'t> {
    /// One for each output, or for each input.
    factors: Tensor<'t>,
    scales_inputs: bool,
}

impl<'t> Ia3<'t> {
    pub(super) fn new(place: &mut Place<'_, 't>) -> Self {
        let [rows, columns] = place.dims();
        let scales_inputs = place.model.is_feedforward(place.options, place.name);
        let dims = if scales_inputs { [1, columns] } else { [rows, 1] };
        let factors = place.factor(&dims);
        Self {
            factors: place.train(options::methods::IA3, factors),
            scales_inputs,
        }
    }
}

impl<'t> Adapter<'t> for Ia3<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
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
