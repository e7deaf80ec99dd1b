//! LoRA, as PEFT computes it (`tuners/lora/layer.py` and `bnb.py`).

use options::LoraATraining;

use super::base::{Base, BaseLayer};
use super::interface::Adapter;
use super::place::Place;
use crate::dtype::Dtype;
use crate::tape::Tensor;

/// LoRA's two factors.
pub(super) struct Lora<'t> {
    pub(super) a: Tensor<'t>,
    pub(super) b: Tensor<'t>,
    /// DoRA's.
    pub(super) magnitude: Option<Tensor<'t>>,
    pub(super) dropout: bool,
    /// Their format as the layer sees it, which is not always the one they are gathered in.
    pub(super) dtype: Dtype,
    /// A dense layer's output has the input's format.
    pub(super) returns_input_format: bool,
}

impl<'t> Lora<'t> {
    /// The factors for a layer, whose B wants gradients, and A unless it is frozen.
    pub(super) fn new(lora: &options::Lora, place: &mut Place<'_, 't>) -> Self {
        let ([rows, columns], rank) = (place.dims(), place.rank());
        let (a, b) = (place.factor(&[rank, columns]), place.factor(&[rows, rank]));
        let mut own = Self {
            a,
            b,
            magnitude: None,
            dropout: place.options.lora_dropout > 0.0,
            dtype: place.dtype,
            returns_input_format: place.release.returns_input_format,
        };
        own.take_out(place.layer, lora.init_lora_weights, place.tape);
        let a = own.a.clone();
        own.a = match place.options.lora_fa {
            LoraATraining::Trained => place.register.train(options::methods::LORA_A, a),
            LoraATraining::Frozen => a,
            LoraATraining::Unstepped => place.register.leave_unstepped(a),
        };
        own.b = place.register.train(options::methods::LORA_B, own.b.clone());
        if place.tape.sees_gathered_format {
            own.dtype = own.b.dtype();
        }
        place.register.save(options::methods::LORA_A, &own.a);
        place.register.save(options::methods::LORA_B, &own.b);
        own
    }

    /// DoRA's, with magnitudes.
    pub(super) fn with_magnitude(lora: &options::Lora, place: &mut Place<'_, 't>) -> Self {
        let own = Self::new(lora, place);
        let magnitude = own.dora_magnitude(place.layer, place.tape);
        Self {
            magnitude: Some(place.train(options::methods::MAGNITUDE, magnitude)),
            ..own
        }
    }

    /// `lora_B(lora_A(dropout(input))) * scaling`.
    fn delta(&self, input: &Tensor<'t>) -> Tensor<'t> {
        let dropout = || if self.dropout { input.dropout() } else { input.clone() };
        let dropped = input.tape.in_container(None, input.requires_grad(), dropout);
        let inner = dropped.linear_in_unit(&self.a);
        drop(dropped);
        let outer = inner.linear_in_unit(&self.b);
        drop(inner);
        outer.scale()
    }
}

impl<'t> Tensor<'t> {
    /// A product with a factor, whose module is a unit of its own where the model is sharded.
    fn linear_in_unit(&self, factor: &Self) -> Self {
        let unit = self.tape.unit_of(factor);
        let module = || self.linear(factor, None);
        self.tape.in_unit(unit, true, || {
            self.tape.in_module([Some(factor), None], self.requires_grad(), module)
        })
    }
}

impl<'t> Adapter<'t> for Lora<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        // It asks for the format of A's weight.
        let module = || self.beside(layer, input);
        input.tape.in_container(Some(&self.a), input.requires_grad(), module)
    }
}

impl<'t> Lora<'t> {
    /// The layer's output with the factors'.
    fn beside(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        let tape = input.tape;
        let result = layer.forward_copied(input);
        let expected = result.dtype();
        // Beside a quantised weight, autocast does what is left out under it.
        let is_dense = matches!(layer.weight, Base::Dense(_));
        let converts = is_dense || tape.autocast_dtype().is_none();
        let cast = if converts { input.to(self.dtype) } else { input.clone() };
        let sum = {
            let mut delta = match &self.magnitude {
                None => self.delta(&cast),
                Some(magnitude) => self.dora_delta(magnitude, layer, &cast, &result),
            };
            if converts && !is_dense && self.magnitude.is_none() {
                delta = delta.to(expected);
            }
            let sum = result.add(&delta);
            drop(delta);
            drop(result);
            sum
        };
        if !converts {
            return sum;
        }
        let output = match is_dense && self.returns_input_format {
            true => sum.to(input.dtype()),
            false => sum.to(expected),
        };
        drop(sum);
        output
    }
}
