//! Normalisation, step by step as transformers computes it.

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};

impl<'t> Tensor<'t> {
    /// The dimensions with the last one reduced to 1.
    fn rows(&self, dtype: Dtype) -> Tensor<'t> {
        self.tape.empty(&self.view.layout.dims.with_last(1), dtype)
    }

    /// `self.pow(2)`.
    fn square(&self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            // grad * (2 * self ** 1)
            let this = backward.saved(0);
            let power = this.like(this.dtype());
            let doubled = power.like(power.dtype());
            let product = doubled.like(grad.dtype());
            drop((doubled, power));
            [Some(product), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(self);
        record.finish(self.like(self.dtype()))
    }

    /// `self.mean(-1, keepdim=True)`.
    fn mean_last(&self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (dims, dtype) = backward.attributes.inputs[0];
            [Some(grad.tape.empty(&dims, dtype)), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.rows(self.dtype()))
    }

    /// `self + epsilon`.
    pub(crate) fn add_number(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.clone()), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.like(self.dtype()))
    }

    /// `torch.rsqrt(self)`.
    fn rsqrt(&self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            // -0.5 * grad * result ** 3
            let result = backward.saved(0);
            let cube = result.like(result.dtype());
            let scaled = grad.like(grad.dtype());
            let product = scaled.like(scaled.dtype());
            drop((scaled, cube));
            [Some(product), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        let result = self.like(self.dtype());
        record.save(&result);
        record.finish(result)
    }

    /// The RMSNorm of transformers' Gemma 2 and 3 (`Gemma2RMSNorm.forward`): in float32 with 1 more than the weight,
    /// and then back to the format of the input.
    pub(crate) fn rms_norm_centered(&self, weight: &Self) -> Tensor<'t> {
        let hidden = self.to(Dtype::Float32);
        let scale = {
            let variance = hidden.square().mean_last();
            let shifted = variance.add_number();
            drop(variance);
            shifted.rsqrt()
        };
        let normed = hidden.mul(&scale);
        drop((scale, hidden));
        let factor = weight.to(Dtype::Float32).add_number();
        let output = normed.mul(&factor);
        drop((normed, factor));
        output.to(self.dtype())
    }

    /// transformers' RMSNorm: in float32, and back to the format of the input before the weight comes in.
    pub(crate) fn rms_norm(&self, weight: &Self) -> Tensor<'t> {
        let hidden = self.to(Dtype::Float32);
        let variance = hidden.square().mean_last();
        let scale = variance.add_number().rsqrt();
        let normed = hidden.mul(&scale);
        drop((scale, hidden));
        let cast = normed.to(self.dtype());
        let output = weight.mul(&cast);
        drop((cast, normed, variance));
        output
    }

    /// The RMSNorm of Llama's first code: the float32 scale turns the hidden states to float32 at their product.
    pub(crate) fn rms_norm_cast_late(&self, weight: &Self) -> Tensor<'t> {
        let wide = self.to(Dtype::Float32);
        let variance = wide.square().mean_last();
        drop(wide);
        let scale = variance.add_number().rsqrt();
        let normed = self.mul(&scale);
        drop(scale);
        let product = weight.mul(&normed);
        let output = product.to(self.dtype());
        drop((product, normed, variance));
        output
    }

    /// `layer_norm(self)` over the last dimension: the statistics are saved with the input.
    pub(crate) fn layer_norm(&self, weight: &Self, bias: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let input = backward.saved(0);
            let whole = backward.needs[0].then(|| input.like(input.dtype()));
            let (dims, dtype) = backward.attributes.inputs[1];
            let [weight, bias] = [1, 2].map(|at| backward.needs[at].then(|| grad.tape.empty(&dims, dtype)));
            [whole, weight, bias, None]
        }
        let mut record = self.tape.record(&[self, weight, bias], derivative);
        record.save(self);
        record.save(weight);
        record.save(bias);
        let output = self.tape.empty(self.dims(), self.dtype());
        let statistics = match self.tape.backend {
            Backend::Cpu => self.dtype(),
            Backend::Cuda => Dtype::Float32,
        };
        let (mean, deviation) = (self.rows(statistics), self.rows(statistics));
        record.save(&mean);
        record.save(&deviation);
        record.finish(output)
    }
}
