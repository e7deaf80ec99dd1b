//! Autocast: products computed in a format of fewer bits.

use super::dtype::Dtype;
use super::tape::{Tape, Tensor};
use super::view::Target;

impl Tape {
    /// Runs `work` under autocast to `dtype`, if any.
    pub(super) fn autocast<R>(&self, dtype: Option<Dtype>, work: impl FnOnce() -> R) -> R {
        self.autocast.set(dtype);
        let result = work();
        self.autocast.set(None);
        for cast in std::mem::take(&mut *self.casts.borrow_mut()).into_iter().flatten() {
            self.release(cast.storage);
        }
        result
    }

    /// The format of autocast, where it is on.
    pub(super) fn autocast_dtype(&self) -> Option<Dtype> {
        self.autocast.get()
    }

    /// `tensor` as autocast lets products be computed from it; the copies of leaves of float32 are kept.
    pub(super) fn autocast_to<'t>(&'t self, tensor: &Tensor<'t>) -> Tensor<'t> {
        let Some(dtype) = self.autocast.get().filter(|_| tensor.dtype().is_float()) else {
            return tensor.clone();
        };
        let leaf = match tensor.view.edge.target() {
            // A part of a unit of FSDP is no leaf.
            Target::Leaf(leaf) if tensor.dtype() == Dtype::Float32 && !self.is_sharded => leaf,
            _ => return tensor.to(dtype),
        };
        if let Some(&Some(view)) = self.casts.borrow().get(leaf) {
            return self.tensor(view).clone_kept();
        }
        let cast = tensor.to(dtype);
        let casts = &mut *self.casts.borrow_mut();
        if casts.len() <= leaf {
            casts.resize(leaf + 1, None);
        }
        casts[leaf] = Some(cast.clone().into_view());
        cast
    }
}
