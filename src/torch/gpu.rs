//! GPUs by name: their memory, and the memory of a process that is not tensors.

use std::fmt;
use std::str::FromStr;

use crate::options::ByteSize;
use crate::text::{Mistake, quoted, suggestion};

/// A GPU.
#[derive(Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The name in specs and on the command line.
    pub name: &'static str,
    /// Its generation.
    pub architecture: Architecture,
    /// Bytes of memory as CUDA reports them (`totalGlobalMem`), less than on the box: the driver keeps some, and ECC takes
    /// some. Drivers differ by up to 1 %; of those seen, without Windows, it is the least.
    pub total_bytes: u64,
    /// A process before its first tensor, if somebody measured and published it.
    pub context: Option<Context>,
}

/// The memory of a process before its first tensor. It depends on the driver and on the libraries that are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Its bytes.
    pub bytes: u64,
    /// Who measured it.
    pub source: &'static str,
}

/// The source of all GPUs' memory.
pub const MEMORY_SOURCE: &str = "deviceQuery of NVIDIA's CUDA samples";

/// A generation of NVIDIA's GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 2017: V100.
    Volta,
    /// 2018: T4, RTX 20.
    Turing,
    /// 2020: A100, A10, RTX 30.
    Ampere,
    /// 2022: L4, L40S, RTX 40.
    Ada,
    /// 2022: H100.
    Hopper,
}

impl Architecture {
    /// The compute capability of its GPUs; for Ampere, that of data centres.
    pub fn capability(self) -> ComputeCapability {
        match self {
            Self::Volta => ComputeCapability(7, 0),
            Self::Turing => ComputeCapability(7, 5),
            Self::Ampere => ComputeCapability(8, 0),
            Self::Ada => ComputeCapability(8, 9),
            Self::Hopper => ComputeCapability(9, 0),
        }
    }
}

/// A compute capability, major and minor: what libraries ask of a GPU to choose their kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeCapability(pub u8, pub u8);

impl ComputeCapability {
    /// Bytes of the workspace that PyTorch takes from its allocator for cuBLAS by default: 32 MiB on Hopper and its
    /// successor, 2 of 4 MiB and 8 of 16 KiB otherwise (`parseChosenWorkspaceSize` in
    /// `aten/src/ATen/cuda/CublasHandlePool.cpp`).
    pub(super) fn cublas_workspace_bytes(self) -> u64 {
        const KIB: u64 = 1024;
        match self.0 {
            9 | 10 => 8 * 4096 * KIB,
            _ => 2 * 4096 * KIB + 8 * 16 * KIB,
        }
    }
}

/// Memory: what [`MEMORY_SOURCE`] printed on such a GPU.
const GPUS: [Gpu; 17] = {
    use Architecture::*;
    const MIB: u64 = 1 << 20;
    const fn context(bytes: u64, source: &'static str) -> Option<Context> {
        Some(Context { bytes, source })
    }
    const T4_CONTEXT: Option<Context> = context(140 * MIB + 896 * 1024, "FitCheck's archive, each of its runs");
    [
        gpu("t4", Turing, 15_843_721_216, T4_CONTEXT),
        gpu("rtx-2060-6gb", Turing, 6_204_162_048, None),
        gpu("v100-16gb", Volta, 16_911_433_728, None),
        gpu("v100-32gb", Volta, 34_058_272_768, None),
        gpu("rtx-3060-12gb", Ampere, 12_587_106_304, None),
        gpu("rtx-3070-8gb", Ampere, 8_197_111_808, None),
        gpu("rtx-3080-10gb", Ampere, 10_472_390_656, None),
        gpu("rtx-3090", Ampere, 25_414_860_800, None),
        gpu("a10", Ampere, 23_609_475_072, None),
        gpu("rtx-a6000", Ampere, 51_160_023_040, None),
        gpu("a100-40gb", Ampere, 42_298_834_944, context(501 * MIB, "AgileRL")),
        gpu("a100-80gb", Ampere, 84_987_740_160, None),
        gpu("l4", Ada, 23_612_293_120, context(226 * MIB, "AgileRL")),
        gpu("rtx-4060-ti-16gb", Ada, 16_722_821_120, None),
        gpu("rtx-4090", Ada, 25_250_627_584, None),
        gpu("l40s", Ada, 47_576_711_168, None),
        gpu("h100-80gb", Hopper, 85_017_755_648, None),
    ]
};

const fn gpu(name: &'static str, architecture: Architecture, total_bytes: u64, context: Option<Context>) -> Gpu {
    Gpu {
        name,
        architecture,
        total_bytes,
        context,
    }
}

impl Gpu {
    /// All known GPUs.
    pub fn all() -> &'static [Self] {
        &GPUS
    }

    /// The GPU with this name, however it is spaced and with the maker's words or without: `NVIDIA GeForce RTX 3090` is
    /// `rtx-3090`. A model that is sold with different memories needs its size.
    ///
    /// # Errors
    ///
    /// The text is not the name of a known GPU.
    pub fn named(text: &str) -> Result<&'static Self, Mistake> {
        let name = plain(text);
        if let Some(gpu) = GPUS.iter().find(|gpu| plain(gpu.name) == name) {
            return Ok(gpu);
        }
        let without_size = |gpu: &Gpu| plain(gpu.name.rsplit_once('-').map_or("", |(model, _)| model)) == name;
        let sizes: Vec<&str> = GPUS
            .iter()
            .filter(|gpu| without_size(gpu))
            .map(|gpu| gpu.name)
            .collect();
        let names: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
        let help = match sizes.as_slice() {
            [] => suggestion(text.trim(), names.iter().copied())
                .unwrap_or_else(|| format!("known GPUs: {}", names.join(", "))),
            sizes => format!("write its size too: `{}`", sizes.join("` or `")),
        };
        Err(Mistake {
            message: match sizes.is_empty() {
                true => format!("{} is not a known GPU", quoted(text)),
                false => format!("{} comes with different memories", quoted(text)),
            },
            help: Some(help),
            range: None,
        })
    }
}

/// A name without what people write differently.
fn plain(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase);
    words
        .filter(|word| !matches!(word.as_str(), "nvidia" | "geforce" | "tesla"))
        .collect()
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A memory budget: a size, or a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// A size in bytes.
    Bytes(u64),
    /// A GPU's memory.
    Gpu(&'static Gpu),
}

impl Budget {
    /// The budget in bytes; on a GPU, the process's context is part of it.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Gpu(gpu) => gpu.total_bytes,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => ByteSize(*bytes).fmt(f),
            Self::Gpu(gpu) => gpu.fmt(f),
        }
    }
}

impl FromStr for Budget {
    type Err = Mistake;

    /// Reads a size such as `6GiB`, or a GPU's name.
    ///
    /// # Errors
    ///
    /// The text is neither, or a small number without a unit.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        const SMALLEST_WITHOUT_UNIT: u64 = 1 << 20;
        let text = text.trim();
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Gpu::named(text).map(Self::Gpu).map_err(|error| Mistake {
                message: error
                    .message
                    .replace("is not a known GPU", "is neither a size, such as 6GiB, nor a known GPU"),
                ..error
            });
        }
        let wrong = |message: String| Mistake::new(message);
        match text.parse() {
            Ok(ByteSize(0)) => Err(wrong("a budget of 0 bytes holds nothing".into())),
            Ok(ByteSize(bytes)) if bytes < SMALLEST_WITHOUT_UNIT && text.ends_with(|c: char| c.is_ascii_digit()) => {
                Err(wrong(format!(
                    "{} has no unit: write `{text}GiB`, for example",
                    quoted(text)
                )))
            }
            Ok(ByteSize(bytes)) => Ok(Self::Bytes(bytes)),
            Err(message) => Err(wrong(format!("{}: {message}", quoted(text)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(text: &str) -> Result<u64, String> {
        text.parse()
            .map(Budget::bytes)
            .map_err(|error: Mistake| error.to_string())
    }

    #[test]
    fn a_gpu_has_less_than_its_box_says() {
        for gpu in Gpu::all() {
            if let Some(gib) = gpu.name.rsplit_once('-').and_then(|(_, size)| size.strip_suffix("gb")) {
                let box_bytes = gib.parse::<u64>().unwrap() << 30;
                assert!(
                    gpu.total_bytes < box_bytes && gpu.total_bytes > box_bytes / 100 * 95,
                    "{gpu}"
                );
            }
            assert!(gpu.context.is_none_or(|context| context.bytes < 1 << 30), "{gpu}");
            assert_eq!(Gpu::named(gpu.name), Ok(gpu));
        }
    }

    #[test]
    fn names_are_read_as_people_write_them() {
        let names = [
            ("T4", "t4"),
            ("Tesla T4", "t4"),
            ("NVIDIA GeForce RTX 3090", "rtx-3090"),
            ("RTX3060 12GB", "rtx-3060-12gb"),
            ("H100_80GB", "h100-80gb"),
            ("NVIDIA A100 40GB", "a100-40gb"),
        ];
        for (text, name) in names {
            assert_eq!(Gpu::named(text).map(|gpu| gpu.name), Ok(name), "{text}");
        }
    }

    #[test]
    fn a_budget_is_a_size_or_a_gpu() {
        assert_eq!(budget("6GiB"), Ok(6 << 30));
        assert_eq!(budget(" 1.5GB "), Ok(1_500_000_000));
        assert_eq!(budget("6442450944"), Ok(6 << 30));
        assert_eq!(budget("rtx-2060-6gb"), Ok(6_204_162_048));
        assert_eq!(
            "6GiB".parse::<Budget>().map(|budget| budget.to_string()),
            Ok("6GiB".into())
        );
        assert_eq!("L4".parse::<Budget>().map(|budget| budget.to_string()), Ok("l4".into()));
    }

    #[test]
    fn errors_say_what_was_meant() {
        let errors = [
            (
                "rtx-3900",
                "`rtx-3900` is neither a size, such as 6GiB, nor a known GPU; did you mean `rtx-3090`?",
            ),
            (
                "a100",
                "`a100` comes with different memories; write its size too: `a100-40gb` or `a100-80gb`",
            ),
            (
                "rtx 3060",
                "`rtx 3060` comes with different memories; write its size too: `rtx-3060-12gb`",
            ),
            ("6", "`6` has no unit: write `6GiB`, for example"),
            ("0GiB", "a budget of 0 bytes holds nothing"),
        ];
        for (text, message) in errors {
            assert_eq!(budget(text), Err(message.into()));
        }
        assert!(budget("quadro").unwrap_err().contains("known GPUs: t4, "));
        assert!(budget("6 GB of it").unwrap_err().contains("a size such as 2GiB"));
        assert!(budget("").is_err());
    }

    #[test]
    fn workspaces_depend_on_the_architecture() {
        assert_eq!(Architecture::Turing.capability().cublas_workspace_bytes(), 8_519_680);
        assert_eq!(Architecture::Hopper.capability().cublas_workspace_bytes(), 33_554_432);
    }
}
