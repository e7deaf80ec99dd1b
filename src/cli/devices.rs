//! What `--gpu` names: a GPU or a size, or several alike.

use std::str::FromStr;

use torch::gpu::{Budget, counted};

/// The GPUs of a plan, which are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Devices {
    /// How many, if that is said.
    pub(super) count: Option<usize>,
    /// Each of them.
    pub(super) each: Budget,
}

impl FromStr for Devices {
    type Err = <Budget as FromStr>::Err;

    /// Reads a name or a size, as `2xa100-80gb` with a count before it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (count, each) = match counted(text) {
            Some((count, each)) if count > 0 => (Some(count), each.trim()),
            _ => (None, text),
        };
        Ok(Self {
            count,
            each: each.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_comes_first() {
        let read = |text: &str| {
            let devices: Devices = text.parse().unwrap();
            (devices.count, devices.each.to_string())
        };
        for text in ["2xa100-80gb", "2 x a100-80gb", "2×A100-80GB", "2*a100-80gb"] {
            assert_eq!(read(text), (Some(2), "a100-80gb".into()), "{text}");
        }
        assert_eq!(read("8x24GiB"), (Some(8), "24GiB".into()));
        assert_eq!(read("rtx-3090"), (None, "rtx-3090".into()));
        assert_eq!(read("1080ti").0, None);
        let several = "4090x2".parse::<Devices>().unwrap_err().to_string();
        assert!(several.contains("2xa100-80gb"), "{several}");
        assert!("0xt4".parse::<Devices>().is_err() && "2x".parse::<Devices>().is_err());
    }
}
