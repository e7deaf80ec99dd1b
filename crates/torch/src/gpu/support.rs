//! What a GPU can compute, and what PyTorch's wheels have for it.

use super::capability::ComputeCapability;
use crate::versions::Version;

/// The first GPUs that compute in bfloat16; PyTorch emulates it on older ones, from 2.3 on also under autocast
/// (`is_bf16_supported` in `torch/cuda/__init__.py`).
pub const NATIVE_BFLOAT16: ComputeCapability = ComputeCapability(8, 0);

/// The first release whose autocast takes emulated bfloat16.
const EMULATED_AUTOCAST: Version = Version(2, 3, 0);

/// A technique without kernels on some GPUs. bitsandbytes' 4-bit weights and 8-bit optimizers need 6.0, which all known
/// GPUs have (`docs/source/installation.mdx`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Technique {
    /// FlashAttention-2.
    FlashAttention2,
    /// bitsandbytes' products of 8-bit weights.
    LlmInt8,
}

impl Technique {
    /// The name that its authors gave it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlashAttention2 => "FlashAttention-2",
            Self::LlmInt8 => "bitsandbytes' LLM.int8()",
        }
    }

    /// The least compute capability with kernels: `cuda_min_major_version` in transformers'
    /// `modeling_flash_attention_utils.py`, and the table of features in bitsandbytes' `docs/source/installation.mdx`.
    pub fn needs(self) -> ComputeCapability {
        match self {
            Self::FlashAttention2 => ComputeCapability(8, 0),
            Self::LlmInt8 => ComputeCapability(7, 5),
        }
    }
}

/// True if autocast of the release `torch` (`None` for today's) takes bfloat16 on such a GPU.
pub fn autocasts_to_bfloat16(capability: ComputeCapability, torch: Option<&str>) -> bool {
    capability >= NATIVE_BFLOAT16 || is_at_least(torch, EMULATED_AUTOCAST)
}

/// A note if wheels of PyTorch's release `torch` (`None` for today's) have no kernels for such a GPU, all or some.
///
/// Pascal is in wheels for CUDA 12.6 alone from 2.8 on (pytorch/pytorch#157517), Volta from 2.11 on (#172352), and
/// wheels for CUDA 12.6 end with 2.14 (#190385). Blackwell's begin with 2.7.
pub fn wheels(capability: ComputeCapability, torch: Option<&str>) -> Option<String> {
    let generation = capability.architecture().name();
    let is_before = |version| !is_at_least(torch, version);
    let last_wheels = match capability {
        ComputeCapability(..=6, _) => Version(2, 8, 0),
        ComputeCapability(7, ..=4) => Version(2, 11, 0),
        ComputeCapability(10.., _) if is_before(Version(2, 7, 0)) => {
            return Some(format!("PyTorch's wheels have kernels for {generation} from 2.7.0 on"));
        }
        _ => return None,
    };
    if is_at_least(torch, Version(2, 15, 0)) {
        Some(format!(
            "PyTorch's wheels have no kernels for {generation} from 2.15.0 on; 2.14 has them for CUDA 12.6"
        ))
    } else if is_at_least(torch, last_wheels) {
        Some(format!(
            "only PyTorch's wheels for CUDA 12.6 have kernels for {generation} from {last_wheels} on"
        ))
    } else {
        None
    }
}

/// True if a release is `version` or newer; today's is, and so is a text that is not a version, which is refused
/// elsewhere.
fn is_at_least(torch: Option<&str>, version: Version) -> bool {
    let release = torch.and_then(|torch| torch.parse::<Version>().ok());
    release.is_none_or(|release| release >= version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_lose_the_oldest_gpus_and_gain_the_newest() {
        let note = |major, minor, torch| wheels(ComputeCapability(major, minor), torch).unwrap_or_default();
        for (major, minor, torch, expected) in [
            (6, 1, Some("2.7.1"), ""),
            (
                6,
                1,
                Some("2.8.0"),
                "only PyTorch's wheels for CUDA 12.6 have kernels for Pascal from 2.8.0 on",
            ),
            (7, 0, Some("2.10.0"), ""),
            (
                7,
                0,
                Some("2.14.1"),
                "only PyTorch's wheels for CUDA 12.6 have kernels for Volta from 2.11.0 on",
            ),
            (7, 5, None, ""),
            (9, 0, Some("2.0.0"), ""),
            (
                12,
                0,
                Some("2.6.0"),
                "PyTorch's wheels have kernels for Blackwell from 2.7.0 on",
            ),
            (12, 0, Some("2.7.0"), ""),
        ] {
            assert_eq!(note(major, minor, torch), expected, "{major}.{minor} {torch:?}");
        }
        assert!(note(6, 0, None).contains("no kernels for Pascal") && note(7, 0, Some("2.15.0")).contains("Volta"));
    }

    #[test]
    fn older_autocasts_refuse_emulated_bfloat16() {
        let takes = |capability, torch| autocasts_to_bfloat16(capability, Some(torch));
        let (t4, a100) = (ComputeCapability(7, 5), ComputeCapability(8, 0));
        assert!(!takes(t4, "2.2.2") && takes(t4, "2.3.0") && takes(a100, "2.0.0"));
        assert!(autocasts_to_bfloat16(t4, None));
    }
}
