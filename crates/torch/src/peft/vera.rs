//! VeRA, as PEFT computes it (`tuners/vera/layer.py`).

use super::base::BaseLayer;
use super::interface::Adapter;
use super::place::Place;
use crate::tape::Tensor;

/// VeRA's vectors, and the factors that all layers share.
pub(super) struct Vera<'t> {
    /// The vector of the outputs.
    b: Tensor<'t>,
    /// The vector between the factors.
    d: Tensor<'t>,
    /// `[rank, most inputs]` and `[most outputs, rank]`.
    shared: [Tensor<'t>; 2],
    dropout: bool,
}

impl<'t> Vera<'t> {
    pub(super) fn new(vera: &options::Vera, place: &mut Place<'_, 't>) -> Self {
        let [rows, _] = place.dims();
        let [b, d] = [rows, place.rank()].map(|len| place.factor(&[len]));
        Self {
            b: place.train(options::methods::VERA_B, b),
            d: place.train(options::methods::VERA_D, d),
            shared: shared_factors(vera, place),
            dropout: vera.vera_dropout > 0.0,
        }
    }
}

/// The factors, which are made for the first layer.
fn shared_factors<'t>(vera: &options::Vera, place: &mut Place<'_, 't>) -> [Tensor<'t>; 2] {
    if let Some(shared) = place.register.shared() {
        return shared.clone();
    }
    let (model, rank) = (place.model, place.options.rank);
    let (rows, columns) = model.largest_adapted(place.options);
    let shared = [[rank, columns], [rows, rank]].map(|dims| place.factor(&dims.map(|dim| dim as u32)));
    if vera.save_projection {
        for (part, factor) in options::methods::VERA_SHARED.into_iter().zip(&shared) {
            place.register.save_shared(part, factor);
        }
    }
    place.register.shared().insert(shared).clone()
}

impl<'t> Adapter<'t> for Vera<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
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
