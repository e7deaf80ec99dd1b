//! Operations on one element after another, with broadcasting and casts.

use trace::Category;

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::layout::{Layout, MAX_RANK};
use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};

impl<'t> Tensor<'t> {
    /// A new tensor of this one's layout.
    pub(crate) fn like(&self, dtype: Dtype) -> Tensor<'t> {
        self.tape.empty_as(self.view.layout.dense(), dtype, Category::Temporary)
    }

    /// The layout of an operation on both: that of the operand which is as large as the result.
    fn broadcast(&self, other: &Self) -> Layout {
        let (a, b) = (&self.view.layout, &other.view.layout);
        if a.dims() == b.dims() {
            return if a.is_dense() { *a } else { b.dense() };
        }
        let rank = a.rank().max(b.rank());
        let size = |layout: &Layout, axis: usize| {
            let missing = rank - layout.rank();
            if axis < missing {
                1
            } else {
                layout.dims()[axis - missing]
            }
        };
        let mut dims = [1; MAX_RANK];
        for (axis, dim) in dims[..rank].iter_mut().enumerate() {
            *dim = size(a, axis).max(size(b, axis));
        }
        let dims = &dims[..rank];
        if a.dims() == dims {
            a.dense()
        } else if b.dims() == dims {
            b.dense()
        } else {
            Layout::contiguous(dims)
        }
    }

    /// `self.to(dtype)`: itself where that is its format.
    pub(crate) fn to(&self, dtype: Dtype) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.to(backward.attributes.inputs[0].1)), None, None, None]
        }
        if self.dtype() == dtype {
            return self.clone();
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.like(dtype))
    }

    /// `self + other`.
    pub(crate) fn add(&self, other: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [0, 1, 2, 3].map(|input| backward.needs[input].then(|| grad.clone()))
        }
        let record = self.tape.record(&[self, other], derivative);
        let dtype = self.dtype().promote(other.dtype());
        record.finish(self.tape.empty_as(self.broadcast(other), dtype, Category::Temporary))
    }

    /// `self * other`.
    pub(crate) fn mul(&self, other: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            // The gradient of the second comes first.
            let other = backward.needs[1].then(|| grad.times(&backward.saved(0)));
            let place = usize::from(backward.needs[1]);
            let this = backward.needs[0].then(|| grad.times(&backward.saved(place)));
            [this, other, None, None]
        }
        let mut record = self.tape.record(&[self, other], derivative);
        if other.requires_grad() {
            record.save(self);
        }
        if self.requires_grad() {
            record.save(other);
        }
        record.finish(self.times(other))
    }

    /// `torch.max(self, lowest)` by a number without a history.
    pub(crate) fn clamped(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            // `at::where(self == other, grad / 2, grad).masked_fill_(self < other, 0)`, as of PyTorch 2.0 and 2.1.
            let half = grad.like(grad.dtype());
            let equal = grad.like(Dtype::Bool);
            let result = grad.like(grad.dtype());
            let less = grad.like(Dtype::Bool);
            drop((less, equal, half));
            [Some(result), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(self);
        record.finish(self.like(self.dtype()))
    }

    /// `self / other` by a divisor without a history.
    pub(crate) fn div(&self, other: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.times(&backward.saved(0))), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(other);
        record.finish(self.times(other))
    }

    /// `self - other`.
    pub(crate) fn sub(&self, other: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let other = backward.needs[1].then(|| grad.like(grad.dtype()));
            [backward.needs[0].then(|| grad.clone()), other, None, None]
        }
        let record = self.tape.record(&[self, other], derivative);
        record.finish(self.times(other))
    }

    /// The product, without a history.
    pub(crate) fn times(&self, other: &Self) -> Tensor<'t> {
        let dtype = self.dtype().promote(other.dtype());
        self.tape.empty_as(self.broadcast(other), dtype, Category::Temporary)
    }

    /// `self * number`.
    pub(crate) fn scale(&self) -> Tensor<'t> {
        self.neg()
    }

    /// A soft cap in three operations, as transformers' Gemma 2 has it: `tanh(self / cap) * cap`.
    pub(crate) fn soft_capped(self) -> Tensor<'t> {
        let inner = self.scale();
        drop(self);
        let tanh = inner.activation_of_result();
        drop(inner);
        tanh.scale()
    }

    /// `-self`: nothing is saved.
    pub(crate) fn neg(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.like(grad.dtype())), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.like(self.dtype()))
    }

    /// `silu(self)`.
    pub(crate) fn silu(&self) -> Tensor<'t> {
        self.activation()
    }

    /// An activation function that saves its input and has a kernel for its derivative, as silu and gelu have.
    pub(crate) fn activation(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.like(grad.dtype())), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(self);
        record.finish(self.like(self.dtype()))
    }
}

impl<'t> Tensor<'t> {
    /// `dropout(self, p)` of a p above 0: a GPU remembers what is kept as one byte an element, the CPU as numbers. In
    /// an evaluation nothing is dropped.
    pub(crate) fn dropout(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.like(grad.dtype())), None, None, None]
        }
        if self.tape.is_evaluating() {
            return self.clone();
        }
        let mut record = self.tape.record(&[self], derivative);
        let kept = self.like(match self.tape.backend {
            Backend::Cpu => self.dtype(),
            Backend::Cuda => Dtype::Bool,
        });
        let output = self.like(self.dtype());
        record.save(&kept);
        record.finish(output)
    }

    /// `gelu(self)`.
    pub(crate) fn gelu(&self) -> Tensor<'t> {
        self.activation()
    }

    /// An activation whose derivative is taken from its result: tanh and relu.
    pub(crate) fn activation_of_result(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.like(grad.dtype())), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        let result = self.like(self.dtype());
        record.save(&result);
        record.finish(result)
    }
}
