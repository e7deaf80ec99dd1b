//! Linear layers and matrix products.

use crate::plan::torch::autograd::{Backward, Gradients};
use crate::plan::torch::tensor::{Dtype, Tensor};

impl<'t> Tensor<'t> {
    /// (rows, width) of a tensor seen as a matrix.
    pub(in crate::plan::torch) fn rows_and_width(&self) -> [u32; 2] {
        let width = self.dim_from_last(0);
        [(self.numel() / u64::from(width.max(1))) as u32, width]
    }

    /// The dimensions with another width.
    pub(in crate::plan::torch) fn with_width(&self, width: u32, dtype: Dtype) -> Tensor<'t> {
        self.tape.empty(&self.view.layout.dims.with_last(width), dtype)
    }

    /// `linear(self, weight, bias)` with a weight of (out, in).
    pub(in crate::plan::torch) fn linear(&self, weight: &Self, bias: Option<&Self>) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = backward.tape;
            let (input, _) = backward.attributes.inputs[0];
            let (weight, _) = backward.attributes.inputs[1];
            tape.use_cublas();
            // With a bias the product is `addmm`, whose derivatives come in the order of its arguments' names.
            let fused = backward.attributes.flag;
            let of_input = || Some(tape.empty(&input, grad.dtype()));
            let of_weight = || Some(tape.empty(&weight, grad.dtype()));
            let needs = backward.needs;
            let (this, that) = if fused {
                let this = needs[0].then(of_input).flatten();
                (this, needs[1].then(of_weight).flatten())
            } else {
                let that = needs[1].then(of_weight).flatten();
                (needs[0].then(of_input).flatten(), that)
            };
            [this, that, needs[2].then(|| grad.clone())]
        }
        // Autocast casts its arguments from the last to the first.
        let bias = bias.map(|bias| bias.cast_for_autocast());
        let weight = weight.cast_for_autocast();
        let input = self.cast_for_autocast();
        let flat = if input.view.layout.is_contiguous() {
            input.clone()
        } else {
            input.reshape(&input.rows_and_width())
        };
        let record = match &bias {
            Some(bias) => self.tape.record(&[&input, &weight, bias], derivative).flag(true),
            None => self.tape.record(&[&input, &weight], derivative),
        };
        let mut record = record.flat();
        self.tape.use_cublas();
        if weight.requires_grad() {
            record.save(&flat);
        }
        if input.requires_grad() {
            record.save(&weight);
        }
        record.finish(input.with_width(weight.dims()[0], input.dtype()))
    }

    /// The batched product of (batch, heads, rows, inner) and (batch, heads, inner, width): `torch.matmul`.
    pub(in crate::plan::torch) fn matmul(&self, other: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = backward.tape;
            let [(this, _), (other, _), _] = backward.attributes.inputs;
            tape.use_cublas();
            let that = backward.needs[1].then(|| tape.empty(&other, grad.dtype()));
            let this = backward.needs[0].then(|| tape.empty(&this, grad.dtype()));
            [this, that, None]
        }
        let right = other.cast_for_autocast();
        let [left, right] = [self.cast_for_autocast(), right].map(|side| {
            let &[batch, heads, rows, width] = side.dims() else {
                return side;
            };
            side.reshape(&[batch * heads, rows, width])
        });
        let &[batch, heads, rows, _] = self.dims() else {
            return self.clone();
        };
        let width = other.dim_from_last(0);
        let mut record = self.tape.record(&[&left, &right], derivative);
        self.tape.use_cublas();
        if right.requires_grad() {
            record.save(&left);
        }
        if left.requires_grad() {
            record.save(&right);
        }
        let product = record.finish(self.tape.empty(&[batch * heads, rows, width], left.dtype()));
        product.reshape(&[batch, heads, rows, width])
    }

    /// As autocast lets products be computed from it.
    pub(in crate::plan::torch) fn cast_for_autocast(&self) -> Tensor<'t> {
        self.tape.autocast_to(self)
    }
}
