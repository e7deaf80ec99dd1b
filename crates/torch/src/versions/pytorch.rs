//! Releases of PyTorch.

use base::text::Mistake;

use super::version::{Version, planned, studied};
use crate::caching_allocator::TieBreak;

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

/// The softmax of `scaled_dot_product_attention` where it computes all scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionSoftmax {
    /// The usual one.
    Plain,
    /// Rows without a finite score are made zeros in a copy of the result.
    Copied,
    /// They are made zeros in place.
    InPlace,
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
    /// Plain until 2.5.0 (pytorch/pytorch#131844), and in place from 2.6.0 (#139613): `_safe_softmax` in
    /// `aten/src/ATen/native/transformers/attention.cpp`.
    pub attention_softmax: AttentionSoftmax,
    /// Hopper and its successor compute attention with cuDNN. From 2.11.0, whose wheels have a cuDNN beyond 9.15, but
    /// for those of CUDA 12 (#171627), such as `2.11.0+cu126`: `check_prefer_cudnn_attention` in
    /// `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`.
    pub prefers_cudnn_attention: bool,
    /// cuDNN's attention takes no dropout but whole sixteenths. From 2.12.0 (#174245), whose library has the warning of
    /// `check_cudnn_dropout`; 2.11's took BERT's 0.1 on an H100.
    pub checks_cudnn_dropout: bool,
    /// cuDNN's attention takes heads of 256 numbers on both, and nothing else beyond 128; before, on Hopper alone, and
    /// all up to 256. From 2.14.0, whose wheels have cuDNN 9.24: `check_cudnn_tensor_shapes` and
    /// `check_cudnn_d256_bprop_head_dim`.
    pub cudnn_attention_takes_256: bool,
    /// The memory-efficient kernel of attention takes fewer heads of keys and values than of queries. From 2.14.0
    /// (pytorch/pytorch#191085).
    pub efficient_attention_takes_groups: bool,
    /// It has `fully_shard` as accelerate uses it (`FSDP2_PYTORCH_VERSION`). From 2.6.0.
    pub has_fully_shard: bool,
    /// FSDP has `use_orig_params`, and has been studied. From 2.0.0.
    pub has_fsdp: bool,
    /// What NCCL sends is kept by the allocator until NCCL is done with it, and not until the stream that freed it is. Until
    /// 2.8.0: `avoidRecordStreams_` in `torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp`.
    pub records_streams: bool,
}

impl Pytorch {
    /// The newest release.
    pub const TODAY: Self = Self {
        tie_break: TieBreak::Age,
        workspaces: Workspaces::Scoped,
        saves_softmax_inputs: false,
        has_foreach: true,
        has_sdpa: true,
        attention_softmax: AttentionSoftmax::InPlace,
        prefers_cudnn_attention: true,
        checks_cudnn_dropout: true,
        cudnn_attention_takes_256: true,
        efficient_attention_takes_groups: true,
        has_fully_shard: true,
        has_fsdp: true,
        records_streams: false,
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
            attention_softmax: match version {
                Version(..=1, ..) | Version(2, ..=4, _) => AttentionSoftmax::Plain,
                Version(2, 5, _) => AttentionSoftmax::Copied,
                _ => AttentionSoftmax::InPlace,
            },
            prefers_cudnn_attention: version >= Version(2, 11, 0) && !text.contains("+cu12"),
            checks_cudnn_dropout: version >= Version(2, 12, 0),
            cudnn_attention_takes_256: version >= Version(2, 14, 0),
            efficient_attention_takes_groups: version >= Version(2, 14, 0),
            has_fully_shard: version >= Version(2, 6, 0),
            has_fsdp: !is_first,
            records_streams: version < Version(2, 8, 0),
        })
    }

    /// The release that is planned for `text`, if that is one with `nearest` before it.
    pub fn planned(text: &str) -> Option<String> {
        planned(text, || studied("torch", text, Self::OLDEST))
    }
}
