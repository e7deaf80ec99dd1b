//! The blocks that recompute their forward pass.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The blocks that run their forward pass again in the backward pass: `none`, `full`, or `{every: n}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    /// No block.
    None,
    /// Every block.
    Full,
    /// The blocks whose index is a multiple of this.
    Every(usize),
}

impl Checkpointing {
    /// True if the block of this index (from 0) keeps its input only.
    pub fn recomputes(self, block: usize) -> bool {
        match self {
            Self::None => false,
            Self::Full => true,
            Self::Every(n) => n > 0 && block.is_multiple_of(n),
        }
    }
}

impl Serialize for Checkpointing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Full => serializer.serialize_str("full"),
            Self::Every(n) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("every", n)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Checkpointing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "snake_case")]
        enum Key {
            Every,
        }

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Checkpointing;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, `full` or `{every: n}`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Checkpointing, E> {
                match word {
                    "none" => Ok(Checkpointing::None),
                    "full" => Ok(Checkpointing::Full),
                    _ => Err(E::invalid_type(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Checkpointing, A::Error> {
                let Some(Key::Every) = map.next_key()? else {
                    return Err(de::Error::missing_field("every"));
                };
                let every = map.next_value()?;
                match map.next_key()? {
                    Some(Key::Every) => Err(de::Error::duplicate_field("every")),
                    None => Ok(Checkpointing::Every(every)),
                }
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for Checkpointing {
    fn schema_name() -> Cow<'static, str> {
        "Checkpointing".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "enum": ["none", "full"] },
                {
                    "type": "object",
                    "properties": {
                        "every": {
                            "type": "integer",
                            "minimum": 1,
                            "description": "The blocks whose index is a multiple of this recompute."
                        }
                    },
                    "required": ["every"],
                    "additionalProperties": false
                }
            ]
        })
    }
}
