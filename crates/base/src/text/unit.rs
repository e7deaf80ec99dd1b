//! Units of published figures and of the values of claims.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a number. KB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024.
#[expect(missing_docs, reason = "most names are the units' own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    #[serde(rename = "bytes", alias = "B")]
    Bytes,
    #[serde(alias = "kB")]
    KB,
    MB,
    GB,
    TB,
    KiB,
    MiB,
    GiB,
    TiB,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "seconds", alias = "s")]
    Seconds,
    #[serde(rename = "minutes")]
    Minutes,
    #[serde(rename = "hours")]
    Hours,
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
    /// A hundredth: 0.75 is 75 %.
    #[serde(rename = "%")]
    Percent,
    /// A quotient: 0.5 is 0.50×.
    #[serde(rename = "×", alias = "x")]
    Times,
    #[serde(rename = "count")]
    Count,
    #[serde(rename = "thousand")]
    Thousand,
    #[serde(rename = "million")]
    Million,
    #[serde(rename = "billion")]
    Billion,
    /// A number without a unit, such as a loss.
    #[serde(rename = "none")]
    Plain,
}

/// A kind of quantity. Numbers of one dimension can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Bytes.
    Memory,
    /// Seconds.
    Time,
    /// Tokens per second.
    Speed,
    /// One number over another.
    Share,
    /// Counts, and numbers without a unit.
    Number,
}

impl Dimension {
    /// Its units, for messages.
    pub fn units(self) -> &'static str {
        match self {
            Self::Memory => {
                "`bytes`, `KB`, `MB`, `GB` and `TB` (powers of 1000), `KiB`, `MiB`, `GiB` and `TiB` (of 1024)"
            }
            Self::Time => "`ms`, `seconds`, `minutes` and `hours`",
            Self::Speed => "`tokens/s`",
            Self::Share => "`%` and `×`",
            Self::Number => "`count`, `thousand`, `million`, `billion` and `none`",
        }
    }
}

impl Unit {
    /// Its name, its dimension, its size in the frame's unit, and the usual decimals.
    const fn properties(self) -> (&'static str, Dimension, f64, usize) {
        const KIBI: f64 = 1024.0;
        match self {
            Self::Bytes => ("bytes", Dimension::Memory, 1.0, 0),
            Self::KB => ("KB", Dimension::Memory, 1e3, 1),
            Self::MB => ("MB", Dimension::Memory, 1e6, 1),
            Self::GB => ("GB", Dimension::Memory, 1e9, 2),
            Self::TB => ("TB", Dimension::Memory, 1e12, 2),
            Self::KiB => ("KiB", Dimension::Memory, KIBI, 1),
            Self::MiB => ("MiB", Dimension::Memory, KIBI * KIBI, 1),
            Self::GiB => ("GiB", Dimension::Memory, KIBI * KIBI * KIBI, 2),
            Self::TiB => ("TiB", Dimension::Memory, KIBI * KIBI * KIBI * KIBI, 2),
            Self::Milliseconds => ("ms", Dimension::Time, 1e-3, 1),
            Self::Seconds => ("seconds", Dimension::Time, 1.0, 2),
            Self::Minutes => ("minutes", Dimension::Time, 60.0, 1),
            Self::Hours => ("hours", Dimension::Time, 3600.0, 1),
            Self::TokensPerSecond => ("tokens/s", Dimension::Speed, 1.0, 0),
            Self::Percent => ("%", Dimension::Share, 1e-2, 1),
            Self::Times => ("×", Dimension::Share, 1.0, 2),
            Self::Count => ("count", Dimension::Number, 1.0, 0),
            Self::Thousand => ("thousand", Dimension::Number, 1e3, 1),
            Self::Million => ("million", Dimension::Number, 1e6, 1),
            Self::Billion => ("billion", Dimension::Number, 1e9, 2),
            Self::Plain => ("none", Dimension::Number, 1.0, 4),
        }
    }

    /// The name in specs.
    pub fn name(self) -> &'static str {
        self.properties().0
    }

    /// The kind of quantity.
    pub fn dimension(self) -> Dimension {
        self.properties().1
    }

    /// Its size in the frame's unit: bytes, seconds or ones.
    pub fn factor(self) -> f64 {
        self.properties().2
    }

    /// The decimals by default.
    pub fn decimals(self) -> usize {
        self.properties().3
    }

    /// The text behind a number, with its space; empty for counts and plain numbers.
    pub fn suffix(self) -> String {
        match self {
            Self::Count | Self::Plain => String::new(),
            Self::Percent | Self::Times => self.name().to_owned(),
            unit => format!(" {}", unit.name()),
        }
    }
}
