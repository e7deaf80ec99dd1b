//! PyTorch's choice among the kernels of `scaled_dot_product_attention` (`select_sdp_backend` and the conditions of
//! each kernel in `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`).

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::gpu::NATIVE_BFLOAT16;
use crate::tape::Tape;

/// A kernel of `scaled_dot_product_attention`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SdpaKernel {
    /// The CPU's.
    Portable,
    /// cuDNN's.
    Cudnn,
    /// FlashAttention.
    Flash,
    /// The memory-efficient one.
    Efficient,
    /// None: one operation after another in float32, with all scores.
    Math,
}

/// What the choice depends on besides the GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands {
    pub dtype: Dtype,
    /// Numbers of a head.
    pub width: u32,
    /// Keys of a sample.
    pub keys: u32,
    /// Keys and values have fewer heads than queries.
    pub is_grouped: bool,
    pub has_mask: bool,
    /// The share of the weights that is dropped.
    pub dropout: f64,
}

impl Tape {
    /// The kernel that takes `operands`.
    pub(crate) fn sdpa_kernel(&self, operands: Operands) -> SdpaKernel {
        let Operands {
            dtype,
            is_grouped,
            has_mask,
            ..
        } = operands;
        if self.backend == Backend::Cpu {
            return SdpaKernel::Portable;
        }
        let is_half = dtype != Dtype::Float32;
        let is_native = self.capability >= NATIVE_BFLOAT16;
        if is_half && self.takes_cudnn_attention(operands) {
            SdpaKernel::Cudnn
        } else if is_half && is_native && !has_mask {
            SdpaKernel::Flash
        } else if (is_native || dtype != Dtype::Bfloat16)
            && (!is_grouped || self.pytorch.efficient_attention_takes_groups)
        {
            SdpaKernel::Efficient
        } else {
            SdpaKernel::Math
        }
    }

    /// True if cuDNN's kernel is asked first and takes 16-bit `operands` that want gradients:
    /// `check_prefer_cudnn_attention`, `check_cudnn_dropout`, `check_cudnn_tensor_shapes` and
    /// `check_cudnn_d256_bprop_head_dim`.
    fn takes_cudnn_attention(&self, operands: Operands) -> bool {
        let (width, sixteenths) = (operands.width, operands.dropout * 16.0);
        let takes_width = match (self.capability.0, self.pytorch.cudnn_attention_takes_256) {
            (9 | 10, _) if width <= 128 => true,
            (9 | 10, true) => width == 256,
            (9, false) => width <= 256,
            _ => false,
        };
        let takes_dropout = !self.pytorch.checks_cudnn_dropout || sixteenths.fract() == 0.0;
        self.pytorch.prefers_cudnn_attention
            && takes_width
            && width.is_multiple_of(8)
            && operands.keys != 1
            && takes_dropout
    }
}

#[cfg(test)]
mod tests {
    use arch::Preset;

    use super::*;
    use crate::configuration::Configuration;
    use crate::gpu::ComputeCapability;
    use crate::versions::Pytorch;

    const PLAIN: Operands = Operands {
        dtype: Dtype::Bfloat16,
        width: 64,
        keys: 512,
        is_grouped: false,
        has_mask: false,
        dropout: 0.0,
    };

    /// The kernels that these cells took on an H100 with torch 2.11 (`experiments/published/h100.yaml`), and what the
    /// conditions say of others.
    #[test]
    fn kernels_depend_on_the_gpu_the_format_groups_and_masks() {
        use Dtype::{Bfloat16, Float16, Float32};
        use SdpaKernel::{Cudnn, Efficient, Flash, Math};
        let (t4, a100, h100) = (
            ComputeCapability(7, 5),
            ComputeCapability(8, 0),
            ComputeCapability(9, 0),
        );
        for (capability, torch, dtype, is_grouped, has_mask, expected) in [
            (h100, "2.11.0", Bfloat16, true, false, Cudnn),
            (h100, "2.11.0", Float16, false, true, Cudnn),
            (h100, "2.11.0", Float32, false, false, Efficient),
            (h100, "2.11.0", Float32, true, false, Math),
            (h100, "2.14.0", Float32, true, false, Efficient),
            (h100, "2.10.0", Bfloat16, true, false, Flash),
            (a100, "2.11.0", Bfloat16, true, false, Flash),
            (a100, "2.11.0", Bfloat16, false, true, Efficient),
            (t4, "2.11.0", Float16, false, false, Efficient),
            (t4, "2.11.0", Float16, true, false, Math),
            (t4, "2.14.0", Bfloat16, false, false, Math),
        ] {
            let tape = Tape::new(&Configuration {
                capability,
                pytorch: Pytorch::of(torch).unwrap(),
                ..Configuration::new(Preset::named("tiny").unwrap().config())
            });
            let operands = Operands {
                dtype,
                is_grouped,
                has_mask,
                ..PLAIN
            };
            assert_eq!(
                tape.sdpa_kernel(operands),
                expected,
                "{capability} {torch} {operands:?}"
            );
        }
    }

    /// BERT's dropout on an H100 with torch 2.11 went to cuDNN (`experiments/published/h100.yaml`); the others are what
    /// the conditions say.
    #[test]
    fn cudnn_takes_some_widths_lengths_and_dropouts() {
        use SdpaKernel::{Cudnn, Flash};
        let (h100, b200) = (ComputeCapability(9, 0), ComputeCapability(10, 0));
        let dropout = |dropout| Operands { dropout, ..PLAIN };
        let width = |width| Operands { width, ..PLAIN };
        for (capability, torch, operands, expected) in [
            (h100, "2.11.0", dropout(0.1), Cudnn),
            (h100, "2.12.0", dropout(0.1), Flash),
            (h100, "2.12.0", dropout(0.125), Cudnn),
            (h100, "2.12.0", Operands { keys: 1, ..PLAIN }, Flash),
            (h100, "2.13.0", width(256), Cudnn),
            (h100, "2.13.0", width(192), Cudnn),
            (h100, "2.14.0", width(192), Flash),
            (h100, "2.14.0", width(100), Flash),
            (b200, "2.13.0", width(128), Cudnn),
            (b200, "2.13.0", width(256), Flash),
            (b200, "2.14.0", width(256), Cudnn),
            (h100, "2.11.0+cu126", PLAIN, Flash),
            (h100, "2.11.0+cu130", PLAIN, Cudnn),
        ] {
            let tape = Tape::new(&Configuration {
                capability,
                pytorch: Pytorch::of(torch).unwrap(),
                ..Configuration::new(Preset::named("tiny").unwrap().config())
            });
            let kernel = tape.sdpa_kernel(operands);
            assert_eq!(kernel, expected, "{capability} {torch} {operands:?}");
        }
    }
}
