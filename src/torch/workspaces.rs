//! Workspaces of cuBLAS and cuBLASLt, which PyTorch takes from its allocator.

use std::cell::Cell;

use super::configuration::Backend;
use super::dtype::Dtype;
use super::tape::{Tape, Tensor};
use super::view::StorageId;
use crate::memory::Category;

/// Bytes of cuBLASLt's workspace (`parseCUDABlasLtWorkspaceSize` in `aten/src/ATen/cuda/CublasHandlePool.cpp`).
const CUBLAS_LT_WORKSPACE: u64 = 1024 * 1024;

impl Tape {
    /// A new tensor that a product is written to.
    pub(super) fn product(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        let product = self.empty(dims, dtype);
        self.use_cublas();
        product
    }

    /// A product is computed, whose result is there already: the first of a thread makes cuBLAS' workspace, which stays.
    pub(super) fn use_cublas(&self) {
        self.make_workspace(&self.workspaces, self.workspace_bytes);
    }

    /// The same for a product with a bias, which cuBLASLt computes with a workspace of its own besides (`gemm_and_bias` in
    /// `aten/src/ATen/cuda/CUDABlas.cpp`, `getCUDABlasLtWorkspace` in `CublasHandlePool.cpp`).
    pub(super) fn use_cublas_lt(&self) {
        self.use_cublas();
        self.make_workspace(&self.lt_workspaces, CUBLAS_LT_WORKSPACE);
    }

    fn make_workspace(&self, workspaces: &[Cell<Option<StorageId>>; 2], bytes: u64) {
        let workspace = &workspaces[usize::from(self.in_backward.get())];
        if self.backend == Backend::Cuda && workspace.get().is_none() && !self.stopped.get() {
            workspace.set(Some(self.alloc(bytes, Category::Temporary)));
        }
    }
}
