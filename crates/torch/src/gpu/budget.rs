//! Memory budgets.

use std::fmt;
use std::str::FromStr;

use base::text::{Mistake, quoted};
use options::ByteSize;

use super::card::Gpu;

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
                "NVIDIA GeForce RTX 3050 Laptop GPU",
                "`NVIDIA GeForce RTX 3050 Laptop GPU` comes with different memories; write its size too: \
                 `rtx-3050-laptop-4gb` or `rtx-3050-laptop-6gb`",
            ),
            ("6", "`6` has no unit: write `6GiB`, for example"),
            ("0GiB", "a budget of 0 bytes holds nothing"),
        ];
        for (text, message) in errors {
            assert_eq!(budget(text), Err(message.into()));
        }
        assert!(budget("radeon").unwrap_err().contains("`expctl list --gpus`"));
        assert!(budget("6 GB of it").unwrap_err().contains("a size such as 2GiB"));
        assert!(budget("").is_err());
    }
}
