//! Fake tensors: shapes, formats and who still holds which storage, without any numbers.

use super::layout::Layout;
use super::tape::{Edge, StorageId, Tape};

/// Number formats as PyTorch has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    Float32,
    Float16,
    Bfloat16,
    Int64,
    Int32,
    Int8,
    Uint8,
    Bool,
}

impl Dtype {
    /// Bytes of an element.
    pub fn size(self) -> u64 {
        match self {
            Self::Int64 => 8,
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Int8 | Self::Uint8 | Self::Bool => 1,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16 | Self::Bfloat16)
    }

    /// What an operation on both computes in.
    pub(super) fn promote(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (a, b) if a.is_float() && !b.is_float() => a,
            (a, b) if !a.is_float() && b.is_float() => b,
            (a, b) if a.is_float() && b.is_float() => Self::Float32,
            (a, b) if a.size() >= b.size() => a,
            (_, b) => b,
        }
    }
}

/// What a tensor is, without the claim on its storage that a [`Tensor`] has.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) storage: StorageId,
    pub(super) dtype: Dtype,
    /// Where its gradient goes.
    pub(super) edge: Edge,
    pub(super) layout: Layout,
}

/// A tensor: holds its storage for as long as it lives, as a Python variable does.
pub(super) struct Tensor<'t> {
    pub(super) tape: &'t Tape,
    pub(super) view: View,
}

impl Clone for Tensor<'_> {
    fn clone(&self) -> Self {
        self.tape.retain(self.view.storage);
        Self {
            tape: self.tape,
            view: self.view,
        }
    }
}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        self.tape.release(self.view.storage);
    }
}

impl<'t> Tensor<'t> {
    /// Gives the claim on the storage to whoever keeps the view.
    pub(super) fn into_view(self) -> View {
        let view = self.view;
        std::mem::forget(self);
        view
    }

    pub(super) fn dims(&self) -> &[u32] {
        self.view.layout.dims()
    }

    /// Another claim on the storage of a view that someone else keeps.
    pub(super) fn clone_kept(self) -> Self {
        let another = self.clone();
        self.into_view();
        another
    }

    /// Size of the dimension `axis`, counted from the last.
    pub(super) fn dim_from_last(&self, axis: usize) -> u32 {
        self.dims()[self.view.layout.rank() - 1 - axis]
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.view.dtype
    }

    pub(super) fn numel(&self) -> u64 {
        self.view.layout.numel()
    }

    pub(super) fn requires_grad(&self) -> bool {
        self.view.edge.is_some()
    }

    /// The same storage without a history.
    pub(super) fn detach(mut self) -> Self {
        self.view.edge = Edge::NONE;
        self
    }

    /// The same storage seen otherwise.
    pub(super) fn with_layout(mut self, layout: Layout) -> Self {
        self.view.layout = layout;
        self
    }
}
