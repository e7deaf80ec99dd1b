//! How attention is computed in a run: what transformers and PyTorch choose.

use crate::options::{Attention, Upcast};
use crate::torch::configuration::{Backend, Configuration, SdpaKernel};
use crate::torch::dtype::Dtype;
use crate::torch::gpu::NATIVE_BFLOAT16;

/// How attention is computed in this run.
#[derive(Clone, Copy)]
pub(crate) struct AttentionOptions {
    pub(crate) implementation: Attention,
    pub(crate) kernel: SdpaKernel,
    /// The kernel takes fewer heads of keys and values than of queries as they are.
    pub(crate) grouped: bool,
    /// It is given the heads of one token that share keys and values as so many tokens.
    pub(crate) packs_heads_of_one_token: bool,
    /// The kernel is given contiguous queries, keys and values.
    pub(crate) copies_heads: bool,
    /// flash_attention_2 is given keys and values repeated for the queries that share them.
    pub(crate) repeats_flash_heads: bool,
    /// The format that flash_attention_2 is given in place of float32.
    pub(crate) flash_dtype: Dtype,
    /// Keys and values are copied into the cache.
    pub(crate) copies_into_cache: bool,
}

impl AttentionOptions {
    /// The choices of transformers and PyTorch for this configuration.
    pub(crate) fn of(configuration: &Configuration) -> Self {
        // Autocast casts what `sdpa` is given.
        let operands = configuration.autocast_dtype().unwrap_or(match configuration.upcast {
            Upcast::Peft => Dtype::Float32,
            Upcast::None | Upcast::Trl => configuration.unquantised(),
        });
        let kernel = configuration.sdpa_kernel.unwrap_or(match configuration.backend {
            Backend::Cpu => SdpaKernel::Portable,
            // `can_use_flash_attention` and `can_use_mem_efficient_attention` in
            // `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`.
            Backend::Cuda => match operands {
                Dtype::Float32 => SdpaKernel::Efficient,
                _ if configuration.capability >= NATIVE_BFLOAT16 => SdpaKernel::Flash,
                Dtype::Bfloat16 => SdpaKernel::Math,
                _ => SdpaKernel::Efficient,
            },
        });
        Self {
            implementation: configuration.attn_implementation,
            kernel,
            grouped: kernel != SdpaKernel::Efficient && !configuration.transformers.repeats_heads,
            packs_heads_of_one_token: configuration.transformers.packs_heads_of_one_token,
            copies_heads: configuration.transformers.copies_heads,
            repeats_flash_heads: configuration.transformers.repeats_flash_heads,
            flash_dtype: configuration.autocast_dtype().unwrap_or(configuration.unquantised()),
            copies_into_cache: configuration.transformers.copies_into_cache,
        }
    }
}
