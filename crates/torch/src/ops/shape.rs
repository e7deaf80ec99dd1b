//! Other ways to see the same elements, and the copies they need now and then.

use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};

impl<'t> Tensor<'t> {
    /// This tensor's elements under other dimensions, copied if need be, without a history.
    pub(crate) fn reshaped(&self, dims: &[u32]) -> Tensor<'t> {
        match self.view.layout.view(dims) {
            Some(layout) => self.clone().with_layout(layout),
            None => self.tape.empty(dims, self.dtype()),
        }
    }

    /// `self.reshape(dims)`, and `self.view(dims)` where that is possible.
    pub(crate) fn reshape(&self, dims: &[u32]) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (dims, _) = backward.attributes.inputs[0];
            [Some(grad.reshaped(&dims)), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.reshaped(dims))
    }

    /// `self.transpose(a, b)`.
    pub(crate) fn transpose(&self, a: usize, b: usize) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let axis = backward.attributes.axis;
            let layout = grad
                .view
                .layout
                .transpose(usize::from(axis & 7), usize::from(axis >> 3));
            [Some(grad.clone().with_layout(layout)), None, None, None]
        }
        let record = self.tape.record(&[self], derivative).axis(a | b << 3);
        record.finish(self.clone().with_layout(self.view.layout.transpose(a, b)))
    }

    /// `self.contiguous()`.
    pub(crate) fn contiguous(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.clone()), None, None, None]
        }
        if self.view.layout.is_contiguous() {
            return self.clone();
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.tape.empty(self.dims(), self.dtype()))
    }

    /// `self.clone()`.
    pub(crate) fn copy(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.clone()), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.like(self.dtype()))
    }

    /// Elements of the last dimension, `len` of them from the one or the other end or from between.
    pub(crate) fn slice_last(&self, len: u32) -> Tensor<'t> {
        let record = self.tape.record(&[self], spread);
        let layout = self.view.layout.narrow(self.view.layout.rank() - 1, len);
        record.finish(self.clone().with_layout(layout))
    }

    /// `torch.chunk(self, 2, dim=-1)`.
    pub(crate) fn halves(&self) -> [Tensor<'t>; 2] {
        let record = self.tape.record(&[self], spread);
        let axis = self.view.layout.rank() - 1;
        let layout = self.view.layout.narrow(axis, self.dims()[axis] / 2);
        let [mut first, mut second] = [0, 1].map(|_| self.clone().with_layout(layout));
        record.finish_all([&mut first, &mut second]);
        [first, second]
    }

    /// `torch.cat([self, other], dim=axis)`.
    pub(crate) fn cat(&self, other: &Self, axis: usize) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let axis = usize::from(backward.attributes.axis);
            let part = |input: usize| {
                let (dims, _) = backward.attributes.inputs[input];
                let layout = grad.view.layout.narrow(axis, dims[axis]);
                backward.needs[input].then(|| grad.clone().with_layout(layout))
            };
            [part(0), part(1), None, None]
        }
        // Formats differ under autocast alone, which casts to the wider one.
        let dtype = self.dtype().promote(other.dtype());
        let [this, other] = [self, other].map(|part| part.to(dtype));
        let record = self.tape.record(&[&this, &other], derivative).axis(axis);
        let dims = this.view.layout.dims;
        let dims = dims.with(axis, dims[axis] + other.dims()[axis]);
        record.finish(self.tape.empty(&dims, dtype))
    }

    /// A copy that was put behind nothing: `torch.cat([empty, self])`.
    pub(crate) fn cat_alone(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.clone()), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.tape.empty(self.dims(), self.dtype()))
    }

    /// `self.repeat(times, 1, 1)` of (1, length, width).
    pub(crate) fn repeat_sample(&self, times: u32) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (dims, _) = backward.attributes.inputs[0];
            let sum = match grad.dims()[0] {
                1 => grad.clone(),
                _ => grad.sum_to(&dims),
            };
            [Some(sum), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.tape.empty(&self.view.layout.dims.with(0, times), self.dtype()))
    }

    /// Heads repeated for the queries that share them: transformers' `repeat_kv`.
    pub(crate) fn repeat_heads(&self, times: u32) -> Tensor<'t> {
        match times {
            1 => self.clone(),
            // `expand` makes a view, and `reshape` can see one head so many times as so many heads.
            _ if self.dims()[1] == 1 => {
                let record = self.tape.record(&[self], sum_of_heads);
                record.finish(self.clone().with_layout(self.view.layout.expand(1, times)))
            }
            _ => self.repeated_heads(times),
        }
    }

    fn repeated_heads(&self, times: u32) -> Tensor<'t> {
        let record = self.tape.record(&[self], sum_of_heads);
        let dims = self.view.layout.dims;
        record.finish(self.tape.empty(&dims.with(1, dims[1] * times), self.dtype()))
    }

    /// Heads repeated by `repeat_interleave`, which always copies them.
    pub(crate) fn repeat_interleaved(&self, times: u32) -> Tensor<'t> {
        match times {
            1 => self.clone(),
            _ => self.repeated_heads(times),
        }
    }

    /// `self[:, :len]` of (batch, length, width).
    pub(crate) fn first_positions(&self, len: u32) -> Tensor<'t> {
        let record = self.tape.record(&[self], spread);
        record.finish(self.clone().with_layout(self.view.layout.narrow(1, len)))
    }

    /// `self[:len]` of (rows, width), or any `len` rows after another.
    pub(crate) fn first_rows(&self, len: u32) -> Tensor<'t> {
        let record = self.tape.record(&[self], spread);
        record.finish(self.clone().with_layout(self.view.layout.narrow(0, len)))
    }

    /// `self[order]` of (rows, width).
    pub(crate) fn ordered(&self, order: &Self) -> Tensor<'t> {
        let mut record = self.tape.record(&[self], spread);
        record.save(order);
        record.finish(self.like(self.dtype()))
    }

    /// `self[:, 0]` of (batch, length, width).
    pub(crate) fn first_position(&self) -> Tensor<'t> {
        let record = self.tape.record(&[self], spread);
        let layout = self.view.layout.narrow(1, 1).squeeze(1);
        record.finish(self.clone().with_layout(layout))
    }
}

/// The derivative of heads that are repeated: summed over those that were one.
fn sum_of_heads<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
    let (dims, dtype) = backward.attributes.inputs[0];
    [Some(grad.tape.empty(&dims, dtype)), None, None, None]
}

/// The derivative of a slice: the gradient among zeros.
fn spread<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
    let (dims, dtype) = backward.attributes.inputs[0];
    [Some(grad.tape.empty(&dims, dtype)), None, None, None]
}
