//! DoRA, as PEFT computes it (`DoraLinearLayer` in `tuners/lora/dora.py`): the norms of the rows are computed again in
//! each forward pass, from a product of the factors that is as large as the weight.

use super::base::{Base, BaseLayer};
use super::lora::Lora;
use crate::tape::{Mode, Tape, Tensor};

impl<'t> Lora<'t> {
    /// What is added to `result`, the output of the base layer. With dropout the base layer is computed once more.
    pub(super) fn dora_delta(
        &self,
        magnitude: &Tensor<'t>,
        layer: &BaseLayer<'t>,
        input: &Tensor<'t>,
        result: &Tensor<'t>,
    ) -> Tensor<'t> {
        let tape = input.tape;
        let drops = self.dropout && !tape.is_evaluating();
        let input = &if drops { input.dropout() } else { input.clone() };
        // `get_lora_weight` from an identity. Its graph lasts until the end, and no gradient reaches it.
        // Autocast keeps the casts that it makes of the factors here, and their history.
        drop([&self.a, &self.b].map(Tensor::cast_for_autocast));
        let eye = tape.empty(&[layer.dims[1]; 2], self.a.dtype());
        let keeps = matches!(tape.mode(), Mode::Record | Mode::Recompute(_));
        let (cast, inner, product) = tape.within(Mode::NoGrad, || {
            let cast = eye.cast_for_autocast();
            let inner = cast.linear(&self.a, None);
            let cast = (keeps && self.a.requires_grad()).then_some(cast);
            let product = inner.linear(&self.b, None);
            (cast, inner, product)
        });
        let graph = keeps.then(|| (cast, inner.clone()));
        drop((eye, inner));
        let product = {
            let as_input = product.to(input.dtype());
            drop(product);
            as_input
        };
        let weight = layer.weight.dequantised(tape).to(input.dtype());
        let norm = weight.norm_of_rows(&product);
        let factor = magnitude.div(&norm).reshape(&[1, layer.dims[0]]);
        let low_rank = input.linear(&self.a, None).linear(&self.b, None);
        let base = match (&layer.bias, drops) {
            (_, true) => input.linear(&weight, None),
            (Some(bias), false) => result.sub(bias),
            (None, false) => result.clone(),
        };
        let of_base = factor.add_number().mul(&base);
        let of_product = {
            let scaled = factor.mul(&low_rank);
            scaled.scale()
        };
        let delta = of_base.add(&of_product);
        drop((of_base, of_product, graph, product, weight));
        delta
    }

    /// The magnitudes before training: the norms of the rows (`update_layer`).
    pub(super) fn dora_magnitude(&self, layer: &BaseLayer<'t>, tape: &'t Tape) -> Tensor<'t> {
        // PEFT copies a 4-bit layer before it asks for its weight, for FSDP's sake.
        let copies = match &layer.weight {
            Base::FourBit(weight) => (
                weight.copies(tape),
                layer.bias.as_ref().map(|bias| bias.like(bias.dtype())),
            ),
            Base::Dense(_) | Base::EightBit(_) => (Vec::new(), None),
        };
        let weight = layer.weight.dequantised(tape);
        let start = layer.start_dtype(self.a.dtype());
        let product = tape.product(&layer.dims, start);
        drop(weight.norm_of_rows(&product));
        drop((weight, product, copies));
        tape.factor(&layer.dims[..1], self.a.dtype(), start)
    }
}

impl<'t> Tensor<'t> {
    /// `torch.linalg.norm(self + scaling * other, dim=1)`, without a history.
    fn norm_of_rows(&self, other: &Self) -> Tensor<'t> {
        let scaled = other.like(other.dtype());
        let sum = self.like(self.dtype().promote(other.dtype()));
        drop(scaled);
        self.tape.empty(&self.dims()[..1], sum.dtype())
    }
}
