//! The answer of a study to a cell that runs out of memory.

use std::borrow::Cow;
use std::fmt;

use base::text::Mistake;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The answer to an out-of-memory: `record`, or `{ladder: [...]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OnOom {
    /// The cell's row says so.
    #[default]
    Record,
    /// Cells that need less follow it, by these rungs in their order.
    Ladder(Vec<Rung>),
}

/// A change of a cell that ran out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Half the micro-batch with twice the accumulation; again until the micro-batch is one sample.
    HalveBatch,
    /// The fewest checkpointed blocks with which the cell fits by prediction, else all.
    Checkpoint,
    /// The tensors that wait in the host's memory: the least traffic with which the cell fits by prediction, else the
    /// most.
    Offload,
    /// Half the longest sample, again down to 32 tokens: it truncates the samples.
    Shorten,
}

impl Rung {
    /// Every rung.
    pub const ALL: [Self; 4] = [Self::HalveBatch, Self::Checkpoint, Self::Offload, Self::Shorten];

    /// The name in specs and frames.
    pub fn name(self) -> &'static str {
        match self {
            Self::HalveBatch => "halve_batch",
            Self::Checkpoint => "checkpoint",
            Self::Offload => "offload",
            Self::Shorten => "shorten",
        }
    }
}

impl OnOom {
    pub(super) fn is_record(&self) -> bool {
        *self == Self::Record
    }

    pub(super) fn check(&self) -> Option<Mistake> {
        let Self::Ladder(rungs) = self else {
            return None;
        };
        if rungs.is_empty() {
            return Some(Mistake::new("the ladder has no rung").help("`on_oom: record` makes no cells"));
        }
        let twice = (1..rungs.len()).find(|&index| rungs[..index].contains(&rungs[index]))?;
        Some(Mistake::new(format!("{} is listed twice", rungs[twice].name())))
    }
}

impl Serialize for OnOom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Record => serializer.serialize_str("record"),
            Self::Ladder(rungs) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("ladder", rungs)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for OnOom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "snake_case")]
        enum Key {
            Ladder,
        }

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = OnOom;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`record` or `{ladder: [halve_batch, checkpoint]}`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<OnOom, E> {
                match word {
                    "record" => Ok(OnOom::Record),
                    _ => Err(E::invalid_type(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_unit<E: de::Error>(self) -> Result<OnOom, E> {
                Ok(OnOom::Record)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OnOom, A::Error> {
                let Some(Key::Ladder) = map.next_key()? else {
                    return Err(de::Error::missing_field("ladder"));
                };
                let rungs: Vec<Rung> = map.next_value()?;
                if let Some(Key::Ladder) = map.next_key()? {
                    return Err(de::Error::duplicate_field("ladder"));
                }
                Ok(OnOom::Ladder(rungs))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for OnOom {
    fn schema_name() -> Cow<'static, str> {
        "OnOom".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "record" },
                {
                    "type": "object",
                    "properties": {
                        "ladder": {
                            "type": "array",
                            "items": { "enum": Rung::ALL },
                            "minItems": 1,
                            "uniqueItems": true,
                            "description": "The rungs in their order. halve_batch: half the micro-batch with twice the \
                                            accumulation, down to one sample. checkpoint: the fewest checkpointed \
                                            blocks with which the cell fits by prediction, else all. offload: the \
                                            value of `offload` with the least traffic with which it fits, else the \
                                            most. shorten: half of max_seq_length, down to 32 tokens. It \
                                            truncates the samples."
                        }
                    },
                    "required": ["ladder"],
                    "additionalProperties": false
                }
            ]
        })
    }
}
