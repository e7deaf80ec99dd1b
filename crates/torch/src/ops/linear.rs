//! Linear layers and matrix products.

use crate::dtype::Dtype;
use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};

impl<'t> Tensor<'t> {
    /// (rows, width) of a tensor seen as a matrix.
    pub(crate) fn rows_and_width(&self) -> [u32; 2] {
        let width = self.dim_from_last(0);
        [(self.numel() / u64::from(width.max(1))) as u32, width]
    }

    /// This tensor, as what an operation gave that was seen otherwise.
    fn seen_otherwise(self) -> Self {
        let layout = self.view.layout;
        self.with_layout(layout)
    }

    /// The dimensions with another width.
    pub(crate) fn with_width(&self, width: u32, dtype: Dtype) -> Tensor<'t> {
        self.tape.empty(&self.view.layout.dims.with_last(width), dtype)
    }

    /// `linear(self, weight, bias)` with a weight of (out, in).
    pub(crate) fn linear(&self, weight: &Self, bias: Option<&Self>) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (input, _) = backward.attributes.inputs[0];
            let (weight, _) = backward.attributes.inputs[1];
            // With a bias the product is `addmm`, whose derivatives come in the order of its arguments' names.
            let fused = backward.attributes.has_bias;
            let product = |dims: &[u32]| Some(grad.tape.product(dims, grad.dtype()));
            // The product is of matrices, and with a turned weight.
            let of_input = || {
                product(&input).map(|product| {
                    if input.len() > 2 {
                        product.seen_otherwise()
                    } else {
                        product
                    }
                })
            };
            let of_weight = || product(&weight).map(Tensor::seen_otherwise);
            let needs = backward.needs;
            let (this, that) = if fused {
                let this = needs[0].then(of_input).flatten();
                (this, needs[1].then(of_weight).flatten())
            } else {
                let that = needs[1].then(of_weight).flatten();
                (needs[0].then(of_input).flatten(), that)
            };
            [this, that, needs[2].then(|| grad.clone()), None]
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
            Some(bias) => self.tape.record(&[&input, &weight, bias], derivative).with_bias(),
            None => self.tape.record(&[&input, &weight], derivative),
        };
        let mut record = record.flat();
        let keeps = self.tape.keeps_arguments;
        if keeps || weight.requires_grad() {
            record.save(&flat);
        }
        if keeps || input.requires_grad() {
            let whole = if keeps {
                weight.clone()
            } else {
                self.tape.viewed(&weight)
            };
            record.save(&whole);
        }
        let output = record.finish(input.with_width(weight.dims()[0], input.dtype()));
        match bias {
            Some(_) => self.tape.use_cublas_lt(),
            None => self.tape.use_cublas(),
        }
        output
    }

    /// The batched product of (batch, heads, rows, inner) and (batch, heads, inner, width): `torch.matmul`.
    pub(crate) fn matmul(&self, other: &Self) -> Tensor<'t> {
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
        left.bmm(&right).reshape(&[batch, heads, rows, width])
    }

    /// The product of matrices, or of so many pairs of them: `torch.mm` and `torch.bmm`.
    pub(crate) fn bmm(&self, other: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let [(this, _), (other, _), ..] = backward.attributes.inputs;
            let product = |dims: &[u32]| grad.tape.product(dims, grad.dtype());
            let that = backward.needs[1].then(|| product(&other));
            let this = backward.needs[0].then(|| product(&this));
            [this, that, None, None]
        }
        let right = other.cast_for_autocast();
        let left = self.cast_for_autocast();
        let mut record = self.tape.record(&[&left, &right], derivative);
        if right.requires_grad() {
            record.save(&left);
        }
        if left.requires_grad() {
            record.save(&right);
        }
        let dims = left.view.layout.dims.with_last(right.dim_from_last(0));
        record.finish(self.tape.product(&dims, left.dtype()))
    }

    /// The tensor in the format that autocast gives products.
    pub(crate) fn cast_for_autocast(&self) -> Tensor<'t> {
        self.tape.autocast_to(self)
    }
}
