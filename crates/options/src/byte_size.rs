//! Sizes as people write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes: `2GiB`, `512MiB` (powers of 1024), `1.5GB` (powers of 1000), or bytes without a unit.
///
/// A part of a byte is left out: 2.6GiB is not a whole number of them. A size is shown with the largest binary unit
/// that divides it, so that equal sizes have equal texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

const MEBIBYTE: u64 = 1 << 20;

const EXPECTED: &str = "a size such as 2GiB, 512MiB or 1.5GB";

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = UNITS[..4]
            .iter()
            .find(|(_, bytes)| self.0 > 0 && self.0.is_multiple_of(*bytes));
        let (unit, bytes) = binary.unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (amount, unit) = (&text[..split], text[split..].trim_start());
        let bytes = match unit {
            "" => 1,
            _ => factor(unit).ok_or_else(|| format!("expected {EXPECTED}"))?,
        };
        let wrong = || format!("expected {EXPECTED}");
        // Exact: a size in f64 may be a byte less than what is written.
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let scale = 10_u128.checked_pow(fraction.len() as u32).ok_or_else(wrong)?;
        let too_large = || "more bytes than 64 bits can count".to_owned();
        let scaled = digits.checked_mul(bytes.into()).ok_or_else(too_large)?;
        if bytes == 1 && !scaled.is_multiple_of(scale) {
            return Err("not a whole number of bytes".into());
        }
        u64::try_from(scaled / scale).map(Self).map_err(|_| too_large())
    }
}

fn factor(unit: &str) -> Option<u64> {
    let mut units = UNITS.iter();
    let found = units.find(|(name, _)| name.eq_ignore_ascii_case(unit));
    found.map(|(_, bytes)| *bytes)
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;

        impl Visitor<'_> for Size {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse()
                    .map_err(|message| E::custom(format!("{message}, got `{}`", text.escape_debug())))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                // A number this small is never a budget in bytes: its unit was forgotten.
                match bytes {
                    1..MEBIBYTE => Err(E::custom(format_args!(
                        "`{bytes}` has no unit: write `{bytes}GiB`, for example, or `{bytes}B`"
                    ))),
                    _ => Ok(ByteSize(bytes)),
                }
            }
        }

        deserializer.deserialize_any(Size)
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "a size such as `2GiB`, `1.5GB` or 4194304",
            "anyOf": [
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? ?([kKmMgGtT]?[bB]|[kKmMgGtT][iI][bB])?$" },
                { "type": "integer", "minimum": MEBIBYTE }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_written_and_show_in_one_way() {
        for (text, bytes, shown) in [
            ("2GiB", 2 << 30, "2GiB"),
            ("2048 MiB", 2 << 30, "2GiB"),
            ("2gib", 2 << 30, "2GiB"),
            ("1.5GB", 1_500_000_000, "1500000000B"),
            ("1.5GiB", 3 << 29, "1536MiB"),
            ("4096", 4096, "4KiB"),
            ("1000kB", 1_000_000, "1000000B"),
            ("1KB", 1000, "1000B"),
            ("0", 0, "0B"),
            ("2.6GiB", 2_791_728_742, "2791728742B"),
            ("1.001kB", 1001, "1001B"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown), "{text}");
            assert_eq!(shown.parse(), Ok(size));
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "GiB",
            "2G",
            "-1GiB",
            "1.2.3GB",
            "0.3B",
            ".",
            "1.5",
            "99999999999TiB",
            "2GiB free",
            "1e9",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
