//! Workspaces of cuBLAS and cuBLASLt, which PyTorch takes from its allocator.

use std::cell::Cell;

use trace::Category;

use super::configuration::Backend;
use super::dtype::Dtype;
use super::tape::{Tape, Tensor};
use super::versions::Workspaces;
use super::view::StorageId;

/// Bytes of cuBLASLt's workspace (`parseCUDABlasLtWorkspaceSize` in `aten/src/ATen/cuda/CublasHandlePool.cpp`).
const CUBLAS_LT_WORKSPACE: u64 = 1024 * 1024;

impl Tape {
    /// A new tensor that a product is written to.
    pub(super) fn product(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        let product = self.empty(dims, dtype);
        self.use_cublas();
        product
    }

    /// A product is computed, whose result is there already. It has a workspace for its time, or the first of a thread
    /// makes one that stays.
    pub(super) fn use_cublas(&self) {
        self.use_workspace(&self.workspaces, self.workspace_bytes);
    }

    /// A product with a bias is computed, whose result is there already. cuBLASLt has a workspace of its own for it
    /// (`gemm_and_bias` in `aten/src/ATen/cuda/CUDABlas.cpp`, `getCUDABlasLtWorkspace` in `CublasHandlePool.cpp`).
    /// Releases whose workspaces stay make that of cuBLAS as well.
    pub(super) fn use_cublas_lt(&self) {
        if self.pytorch.workspaces == Workspaces::Kept {
            self.use_cublas();
        }
        self.use_workspace(&self.lt_workspaces, CUBLAS_LT_WORKSPACE);
    }

    fn use_workspace(&self, kept: &[Cell<Option<StorageId>>; 2], bytes: u64) {
        if self.backend == Backend::Cpu || self.stopped.get() {
            return;
        }
        let kept = &kept[usize::from(self.in_backward.get())];
        match (self.pytorch.workspaces, kept.get()) {
            (Workspaces::Cublas, _) | (Workspaces::Kept, Some(_)) => {}
            (Workspaces::Kept, None) => kept.set(Some(self.alloc(bytes, Category::Temporary))),
            (Workspaces::Scoped, _) => self.release(self.alloc(bytes, Category::Temporary)),
        }
    }
}
