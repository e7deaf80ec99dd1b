//! The instructions that kernels are compiled for.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, EnumAccess, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A level of instructions; each level has all instructions of the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// The instructions that every CPU of the architecture has (SSE2 on x86-64).
    Portable,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// Dot products of bfloat16 pairs.
    Avx512Bf16,
    /// Tiles: matrix products of bfloat16.
    Amx,
}

impl InstructionSet {
    /// All levels, lowest first.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// The name in specs and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512_bf16",
            Self::Amx => "amx",
        }
    }

    /// The level of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// The value of the key `instruction_set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionSetChoice {
    /// The level that is fastest on the CPU.
    Auto,
    /// One level.
    Level(InstructionSet),
}

impl InstructionSetChoice {
    const AUTO: &str = "auto";

    /// Every value of the key.
    const NAMES: [&str; 6] = [
        Self::AUTO,
        InstructionSet::ALL[0].name(),
        InstructionSet::ALL[1].name(),
        InstructionSet::ALL[2].name(),
        InstructionSet::ALL[3].name(),
        InstructionSet::ALL[4].name(),
    ];

    /// The name in specs.
    pub fn name(self) -> &'static str {
        self.level().map_or(Self::AUTO, InstructionSet::name)
    }

    /// The chosen level; `None` if the CPU decides.
    pub fn level(self) -> Option<InstructionSet> {
        match self {
            Self::Auto => None,
            Self::Level(level) => Some(level),
        }
    }
}

impl Serialize for InstructionSetChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for InstructionSetChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = InstructionSetChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an instruction set")
            }

            fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<InstructionSetChoice, A::Error> {
                let (word, variant): (String, _) = data.variant()?;
                variant.unit_variant()?;
                if word == InstructionSetChoice::AUTO {
                    return Ok(InstructionSetChoice::Auto);
                }
                InstructionSet::named(&word)
                    .map(InstructionSetChoice::Level)
                    .ok_or_else(|| de::Error::unknown_variant(&word, &InstructionSetChoice::NAMES))
            }
        }

        deserializer.deserialize_enum("InstructionSet", &Self::NAMES, Words)
    }
}

impl JsonSchema for InstructionSetChoice {
    fn schema_name() -> Cow<'static, str> {
        "InstructionSet".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::NAMES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_known_by_their_names() {
        for level in InstructionSet::ALL {
            assert_eq!(InstructionSet::named(level.name()), Some(level));
        }
        assert_eq!(InstructionSet::named("mmx"), None);
    }

    #[test]
    fn the_key_takes_auto_and_every_level() {
        let levels = InstructionSet::ALL.map(InstructionSetChoice::Level);
        for choice in levels.into_iter().chain([InstructionSetChoice::Auto]) {
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(json, format!("\"{}\"", choice.name()));
            assert_eq!(serde_json::from_str::<InstructionSetChoice>(&json).unwrap(), choice);
        }
        let error = serde_json::from_str::<InstructionSetChoice>("\"mmx\"").unwrap_err();
        assert!(
            error.to_string().contains("expected one of `auto`, `portable`"),
            "{error}"
        );
    }
}
