//! Releases of PyTorch.

use super::version::{Version, studied};
use crate::text::Mistake;
use crate::torch::caching_allocator::TieBreak;

/// The memory that cuBLAS computes products with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspaces {
    /// Its own, which PyTorch's allocator does not have.
    Cublas,
    /// The first product of a thread makes one that stays.
    Kept,
    /// Each product has one for its time.
    Scoped,
}

/// How a release of PyTorch computes and allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pytorch {
    /// The tie break between equally large free blocks: by address until 2.15.0 (`BlockComparatorSize` in
    /// `c10/cuda/CUDACachingAllocator.cpp`).
    pub tie_break: TieBreak,
    /// cuBLAS' own until 2.0.0. They stay until 2.15.0, and later with `TORCH_CUBLAS_WORKSPACE_CACHE=1`:
    /// `getCurrentCUDABlasHandleWithWorkspace` in `aten/src/ATen/cuda/CublasHandlePool.cpp`.
    pub workspaces: Workspaces,
    /// Softmax and its logarithm keep their input besides their result. Until 1.11.0: `_softmax` and `_log_softmax` in
    /// `tools/autograd/derivatives.yaml`.
    pub saves_softmax_inputs: bool,
    /// Optimizers go over all parameters at once by default. From 2.0.0: `_default_to_fused_or_foreach` in
    /// `torch/optim/optimizer.py`.
    pub has_foreach: bool,
    /// It has `scaled_dot_product_attention`. From 2.0.0.
    pub has_sdpa: bool,
    /// Hopper and its successor compute attention with cuDNN. From 2.11.0, whose wheels have a cuDNN beyond 9.15:
    /// `check_prefer_cudnn_attention` in `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`.
    pub prefers_cudnn_attention: bool,
    /// The memory-efficient kernel of attention takes fewer heads of keys and values than of queries. From 2.14.0
    /// (pytorch/pytorch#191085).
    pub efficient_attention_takes_groups: bool,
}

impl Pytorch {
    /// The newest release.
    pub const TODAY: Self = Self {
        tie_break: TieBreak::Age,
        workspaces: Workspaces::Scoped,
        saves_softmax_inputs: false,
        has_foreach: true,
        has_sdpa: true,
        prefers_cudnn_attention: true,
        efficient_attention_takes_groups: true,
    };

    const OLDEST: Version = Version(1, 10, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("torch", text, Self::OLDEST)?;
        let (is_first, is_todays) = (version < Version(2, 0, 0), version >= Version(2, 15, 0));
        Ok(Self {
            tie_break: if is_todays { TieBreak::Age } else { TieBreak::Address },
            workspaces: match (is_first, is_todays) {
                (true, _) => Workspaces::Cublas,
                (_, true) => Workspaces::Scoped,
                _ => Workspaces::Kept,
            },
            saves_softmax_inputs: version < Version(1, 11, 0),
            has_foreach: !is_first,
            has_sdpa: !is_first,
            prefers_cudnn_attention: version >= Version(2, 11, 0),
            efficient_attention_takes_groups: version >= Version(2, 14, 0),
        })
    }
}
