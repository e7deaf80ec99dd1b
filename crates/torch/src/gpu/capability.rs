//! Compute capabilities and the generations that have them.

use std::fmt;
use std::str::FromStr;

/// A generation of NVIDIA's GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 2016: GTX 10, P100.
    Pascal,
    /// 2017: V100.
    Volta,
    /// 2018: T4, GTX 16, RTX 20.
    Turing,
    /// 2020: A100, A10, RTX 30.
    Ampere,
    /// 2022: L4, L40S, RTX 40.
    Ada,
    /// 2022: H100.
    Hopper,
    /// 2024: B200, RTX 50.
    Blackwell,
}

impl Architecture {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pascal => "Pascal",
            Self::Volta => "Volta",
            Self::Turing => "Turing",
            Self::Ampere => "Ampere",
            Self::Ada => "Ada",
            Self::Hopper => "Hopper",
            Self::Blackwell => "Blackwell",
        }
    }
}

/// A compute capability, major and minor: what libraries ask of a GPU to choose their kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeCapability(pub u8, pub u8);

impl ComputeCapability {
    /// The generation that has it.
    pub fn architecture(self) -> Architecture {
        match self {
            Self(..=6, _) => Architecture::Pascal,
            Self(7, ..=4) => Architecture::Volta,
            Self(7, _) => Architecture::Turing,
            Self(8, 9) => Architecture::Ada,
            Self(8, _) => Architecture::Ampere,
            Self(9, _) => Architecture::Hopper,
            _ => Architecture::Blackwell,
        }
    }

    /// The multiprocessors of one of its GPUs, where none is named or its own are not known: P40, P100, V100, T4, A100,
    /// A40, L40, H100, B200 and RTX PRO 6000.
    pub fn multiprocessors(self) -> u64 {
        match self {
            Self(..=5, _) | Self(6, 1..) => 30,
            Self(6, 0) => 56,
            Self(7, ..=4) => 80,
            Self(7, _) => 40,
            Self(8, ..=5) => 108,
            Self(8, ..=8) => 84,
            Self(8, _) => 142,
            Self(9, _) => 132,
            Self(10 | 11, _) => 148,
            Self(12.., _) => 188,
        }
    }

    /// The threads that a multiprocessor runs at once (the table of technical specifications in the CUDA C++
    /// Programming Guide).
    pub fn threads(self) -> u64 {
        match self {
            Self(7, 5..) => 1024,
            Self(8, 6..) | Self(12.., _) => 1536,
            _ => 2048,
        }
    }

    /// Bytes of the workspace that PyTorch takes from its allocator for cuBLAS by default: 32 MiB on Hopper and its
    /// successor, 2 of 4 MiB and 8 of 16 KiB otherwise (`parseChosenWorkspaceSize` in
    /// `aten/src/ATen/cuda/CublasHandlePool.cpp`).
    pub fn cublas_workspace_bytes(self) -> u64 {
        const KIB: u64 = 1024;
        match self.0 {
            9 | 10 => 8 * 4096 * KIB,
            _ => 2 * 4096 * KIB + 8 * 16 * KIB,
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for ComputeCapability {
    type Err = std::num::ParseIntError;

    /// Reads `8.6`.
    ///
    /// # Errors
    ///
    /// The text is not two numbers with a dot between them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self(major.parse()?, minor.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_and_belong_to_a_generation() {
        let generation = |text: &str| {
            text.parse()
                .map(|capability: ComputeCapability| capability.architecture().name())
        };
        let generations = [
            ("6.1", "Pascal"),
            ("7.0", "Volta"),
            ("7.5", "Turing"),
            ("8.0", "Ampere"),
            ("8.6", "Ampere"),
            ("8.9", "Ada"),
            ("9.0", "Hopper"),
            ("10.0", "Blackwell"),
            ("12.1", "Blackwell"),
        ];
        for (text, name) in generations {
            assert_eq!(generation(text), Ok(name), "{text}");
            assert_eq!(text.parse().map(|c: ComputeCapability| c.to_string()), Ok(text.into()));
        }
        assert!(generation("8").is_err() && generation("8.x").is_err());
        let capability = |text: &str| text.parse::<ComputeCapability>().unwrap();
        assert!(capability("12.0") > capability("9.0") && capability("8.0") > capability("7.5"));
    }

    #[test]
    fn workspaces_depend_on_the_capability() {
        assert_eq!(ComputeCapability(7, 5).cublas_workspace_bytes(), 8_519_680);
        assert_eq!(ComputeCapability(9, 0).cublas_workspace_bytes(), 33_554_432);
    }
}
