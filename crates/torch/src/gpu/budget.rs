//! Memory budgets.

use std::fmt;
use std::str::FromStr;

use base::text::{Mistake, quoted};
use options::ByteSize;

use super::card::{Gpu, is_model_number};

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

    /// The GPU, if it is one.
    pub fn gpu(self) -> Option<&'static Gpu> {
        match self {
            Self::Bytes(_) => None,
            Self::Gpu(gpu) => Some(gpu),
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
        let not_a_gpu = match Gpu::named(text) {
            Ok(gpu) => return Ok(Self::Gpu(gpu)),
            Err(mistake) => mistake,
        };
        // The number of a model is no size.
        let parsed = match is_model_number(text) && text.len() < 7 {
            true => Err(String::new()),
            false => text.parse(),
        };
        match parsed {
            Ok(ByteSize(0)) => Err(Mistake::new("a budget of 0 bytes holds nothing")),
            Ok(ByteSize(bytes)) if bytes < SMALLEST_WITHOUT_UNIT && text.ends_with(|c: char| c.is_ascii_digit()) => {
                let message = format!("{} is no known GPU, and a size has a unit", quoted(text));
                Err(Mistake::new(message).help(format!("write `{text}GB`, for example")))
            }
            Ok(ByteSize(bytes)) => Ok(Self::Bytes(bytes)),
            Err(_) => Err(Mistake {
                message: not_a_gpu
                    .message
                    .replace("is not a known GPU", "is neither a size, such as 6GiB, nor a known GPU"),
                help: not_a_gpu.help.map(with_a_size),
                range: None,
            }),
        }
    }
}

/// The help for an unknown GPU, whose memory can be planned by its size.
fn with_a_size(help: String) -> String {
    match help.starts_with("`expctl list") || help.starts_with("of that number") {
        true => help + "; a size such as 24GB is planned for any other",
        false => help,
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
    fn a_budget_is_a_size_or_a_gpu() {
        assert_eq!(budget("6GiB"), Ok(6 << 30));
        assert_eq!(budget(" 1.5GB "), Ok(1_500_000_000));
        assert_eq!(budget("24gb"), Ok(24_000_000_000));
        assert_eq!(budget("6442450944"), Ok(6 << 30));
        assert_eq!(budget("rtx-2060-6gb"), Ok(6_204_162_048));
        assert_eq!(
            "6GiB".parse::<Budget>().map(|budget| budget.to_string()),
            Ok("6GiB".into())
        );
        assert_eq!(
            "4090".parse::<Budget>().map(|budget| budget.to_string()),
            Ok("rtx-4090".into())
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
                "NVIDIA GeForce RTX 3050 Laptop GPU",
                "`NVIDIA GeForce RTX 3050 Laptop GPU` comes with different memories; write its size too: \
                 `rtx-3050-laptop-4gb` or `rtx-3050-laptop-6gb`",
            ),
            (
                "6",
                "`6` is no known GPU, and a size has a unit; write `6GB`, for example",
            ),
            ("0GiB", "a budget of 0 bytes holds nothing"),
        ];
        for (text, message) in errors {
            assert_eq!(budget(text), Err(message.into()));
        }
        assert!(budget("24").unwrap_err().contains("write `24GB`"));
        for (text, help) in [
            ("3050", "write its size too: `rtx-3050-6gb` or `rtx-3050-8gb`"),
            ("4091", "nor a known GPU"),
            ("40900", "did you mean `rtx-4090`?"),
            ("980", "`expctl list --gpus` prints"),
            ("gtx 980", "`expctl list --gpus` prints"),
            ("6000", "`rtx-a6000`"),
            ("rtx 6000", "or `rtx-pro-6000`"),
            ("4090d", "of that number there is `rtx-4090` or `rtx-4090-laptop`"),
            ("h800", "a size such as 24GB"),
            ("b300", "a size such as 24GB"),
            ("h200 nvl", "of that number there is `h200`"),
            ("titan", "write `titan-x-pascal`, `titan-xp`, `titan-v` or `titan-rtx`"),
            ("RX 7900 XTX", "NVIDIA's GPUs alone"),
            ("7900xtx", "NVIDIA's GPUs alone"),
            ("MI300X", "NVIDIA's GPUs alone"),
            ("arc a770", "NVIDIA's GPUs alone"),
        ] {
            let error = budget(text).unwrap_err();
            assert!(
                error.contains(help) && !error.contains(&format!("{text}GB")),
                "{text}: {error}"
            );
        }
        assert!(budget("24g").unwrap_err().contains("a size has a unit: `24GB`"));
        assert!(
            budget("RTX 4090 48GB")
                .unwrap_err()
                .contains("`rtx-4090` has 24 GB, not 48")
        );
        assert!(budget("24.5").unwrap_err().contains("`24.5GB`"));
        assert!(!budget("inf").unwrap_err().contains("unit"));
        for several in ["2x4090", "4 x A100", "8xh100", "h100x8"] {
            assert!(budget(several).unwrap_err().contains("several GPUs"), "{several}");
        }
        assert!(budget("M2 Max").unwrap_err().contains("NVIDIA's GPUs alone"));
        assert!(budget("voodoo").unwrap_err().contains("`expctl list --gpus`"));
        assert!(budget("radeon").unwrap_err().contains("NVIDIA's GPUs alone"));
        assert!(budget("6 GB of it").unwrap_err().contains("neither a size"));
        assert!(budget("4060 ti").unwrap_err().contains("`rtx-4060-ti-8gb` or"));
        assert!(budget("").is_err());
    }
}
