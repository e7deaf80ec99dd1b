//! LoHa, as PEFT computes it (`tuners/loha/layer.py`).

use super::base::BaseLayer;
use super::interface::Adapter;
use super::place::Place;
use crate::tape::{Backward, Gradients, Mode, Tensor};

/// LoHa's factors: `[outputs, rank]` and `[rank, inputs]` of the first product, and of the second.
pub(super) struct Loha<'t>([Tensor<'t>; 4]);

impl<'t> Loha<'t> {
    pub(super) fn new(place: &mut Place<'_, 't>) -> Self {
        let ([rows, columns], rank) = (place.dims(), place.rank());
        let (left, right) = ([rows, rank], [rank, columns]);
        let shapes = [left, right, left, right];
        Self(std::array::from_fn(|number| {
            let factor = place.factor(&shapes[number]);
            place.train(options::methods::HADA[number], factor)
        }))
    }
}

impl<'t> Adapter<'t> for Loha<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        layer.forward_beside(input, || hada_weight(&self.0))
    }
}

/// `HadaWeight`: `(w1_a @ w1_b) * (w2_a @ w2_b) * scale`. It keeps the factors, and multiplies them again.
fn hada_weight<'t>(factors: &[Tensor<'t>; 4]) -> Tensor<'t> {
    fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
        let [w1_a, w1_b, w2_a, w2_b] = [0, 1, 2, 3].map(|number| backward.saved(number));
        let product = |temp: &Tensor<'t>, factor: &Tensor<'t>| Some(grad.tape.product(factor.dims(), temp.dtype()));
        let scaled = grad.like(grad.dtype());
        let mut temp = scaled.times(&w2_a.bmm(&w2_b));
        let (of_w1_a, of_w1_b) = (product(&temp, &w1_a), product(&temp, &w1_b));
        // Python's name for the one before lasts until the next is there.
        temp = scaled.times(&w1_a.bmm(&w1_b));
        [of_w1_a, of_w1_b, product(&temp, &w2_a), product(&temp, &w2_b)]
    }
    let [w1_a, w1_b, w2_a, w2_b] = factors;
    let tape = w1_a.tape;
    let mut record = tape.record(&[w1_a, w1_b, w2_a, w2_b], derivative);
    let weight = tape.within(Mode::NoGrad, || {
        let product = w1_a.bmm(w1_b).times(&w2_a.bmm(w2_b));
        product.scale()
    });
    for factor in factors {
        record.save(factor);
    }
    record.finish(weight)
}
