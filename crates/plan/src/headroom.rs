//! The part of a GPU's memory that a plan leaves free.

use std::fmt;
use std::str::FromStr;

use base::text::{Mistake, quoted};
use options::ByteSize;

/// The memory that stays free for what no plan sees: a desktop, other processes, libraries that load their kernels late.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Headroom {
    /// None: a cell may fill its budget.
    #[default]
    None,
    /// Of a GPU the larger of 0.5 GiB and 3 %; none of our trainer's budget, which its ledger keeps to the byte.
    Usual,
    /// So many bytes.
    Bytes(u64),
    /// This share of the budget, below 1.
    Share(f64),
}

/// What [`Headroom::Usual`] leaves of a GPU at least.
const USUAL_BYTES: u64 = 1 << 29;

/// The share of a GPU that [`Headroom::Usual`] leaves, where that is more.
const USUAL_SHARE: f64 = 0.03;

impl Headroom {
    /// Bytes of `budget` that stay free; `is_gpu` is false for our trainer's budget.
    pub fn of(self, budget: u64, is_gpu: bool) -> u64 {
        let share = |share: f64| (share * budget as f64) as u64;
        match self {
            Self::None => 0,
            Self::Usual if !is_gpu => 0,
            Self::Usual => share(USUAL_SHARE).max(USUAL_BYTES),
            Self::Bytes(bytes) => bytes,
            Self::Share(part) => share(part),
        }
    }
}

impl fmt::Display for Headroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0"),
            Self::Usual => f.write_str("usual"),
            Self::Bytes(bytes) => ByteSize(*bytes).fmt(f),
            Self::Share(share) => write!(f, "{}%", 100.0 * share),
        }
    }
}

impl FromStr for Headroom {
    type Err = Mistake;

    /// Reads `0`, a size such as `1GiB`, a share such as `5%`, or `usual`.
    ///
    /// # Errors
    /// The text is none of these.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let text = text.trim();
        let wrong = || {
            let message = format!("{} is no headroom", quoted(text));
            Mistake::new(message).help("write a size such as `1GiB`, a share such as `5%`, or `0`")
        };
        match (text, text.strip_suffix('%')) {
            ("0", _) => Ok(Self::None),
            ("usual", _) => Ok(Self::Usual),
            (_, Some(percent)) => match percent.trim().parse::<f64>() {
                Ok(percent) if (0.0..100.0).contains(&percent) => Ok(Self::Share(percent / 100.0)),
                _ => Err(wrong()),
            },
            _ => match text.parse() {
                // A plain number is more likely GiB that were forgotten.
                Ok(ByteSize(bytes)) if bytes >= 1 << 20 || text.ends_with('B') => Ok(Self::Bytes(bytes)),
                _ => Err(wrong()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_headroom_is_the_larger_of_half_a_gib_and_three_percent() {
        assert_eq!(Headroom::Usual.of(8 << 30, true), 1 << 29);
        assert_eq!(Headroom::Usual.of(100 << 30, true), 3 << 30);
        assert_eq!(Headroom::Usual.of(8 << 30, false), 0);
        assert_eq!(Headroom::None.of(8 << 30, true), 0);
    }

    #[test]
    fn a_headroom_is_a_size_or_a_share() {
        let read = |text: &str| text.parse::<Headroom>().map_err(|mistake| mistake.to_string());
        assert_eq!(read("0"), Ok(Headroom::None));
        assert_eq!(read(" 1GiB "), Ok(Headroom::Bytes(1 << 30)));
        assert_eq!(read("5%"), Ok(Headroom::Share(0.05)));
        assert_eq!(read("5%").map(|share| share.of(200, false)), Ok(10));
        for text in ["1", "100%", "-1%", "much", ""] {
            assert!(read(text).is_err_and(|error| error.contains("`5%`")), "{text}");
        }
        for text in ["0", "1GiB", "5%", "usual"] {
            assert_eq!(read(text).map(|headroom| headroom.to_string()), Ok(text.into()));
        }
    }
}
