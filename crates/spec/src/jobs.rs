//! How many cells train side by side.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of cells, or as many as fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// So many at most, 1 or more.
    AtMost(usize),
    /// As many as threads and memory are there for.
    Auto,
}

impl Default for Jobs {
    fn default() -> Self {
        Self::AtMost(1)
    }
}

impl Jobs {
    /// True if one cell follows the other.
    pub fn is_one(&self) -> bool {
        *self == Self::default()
    }

    /// The most cells at once.
    pub fn most(self) -> usize {
        match self {
            Self::AtMost(cells) => cells,
            Self::Auto => usize::MAX,
        }
    }
}

impl Serialize for Jobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(cells) => serializer.serialize_u64(*cells as u64),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Jobs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JobsVisitor)
    }
}

struct JobsVisitor;

impl Visitor<'_> for JobsVisitor {
    type Value = Jobs;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number of cells, 1 or more, or `auto`")
    }

    fn visit_u64<E: de::Error>(self, cells: u64) -> Result<Jobs, E> {
        match usize::try_from(cells) {
            Ok(cells) if cells > 0 => Ok(Jobs::AtMost(cells)),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(cells), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, cells: i64) -> Result<Jobs, E> {
        match u64::try_from(cells) {
            Ok(cells) => self.visit_u64(cells),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(cells), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Jobs, E> {
        match word {
            "auto" => Ok(Jobs::Auto),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Jobs, E> {
        Ok(Jobs::default())
    }
}

impl JsonSchema for Jobs {
    fn schema_name() -> Cow<'static, str> {
        "Jobs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "enum": ["auto"] }] })
    }
}
