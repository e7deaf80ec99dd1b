//! The blocks that recompute their forward pass.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ByteSize;

/// The blocks that run their forward pass again in the backward pass: `none`, `full`, or a map with one key that
/// chooses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpointing {
    /// No block.
    None,
    /// Every block.
    Full,
    /// The blocks whose index is a multiple of this.
    Every(usize),
    /// So many blocks from the first: the most that a number of recomputed blocks can save. The backward pass ends with
    /// them, so they are recomputed when all other blocks have released what they saved.
    First(usize),
    /// The blocks with these indices (from 0), ascending.
    Layers(Vec<usize>),
    /// The fewest blocks with which the cell fits this size by prediction. It is resolved before a cell gets its id: no
    /// cell that runs has it.
    Auto(ByteSize),
}

/// The keys of the map that chooses blocks.
const KEYS: [&str; 4] = ["every", "first", "layers", "auto"];

impl Checkpointing {
    /// True if the block of this index (from 0) keeps its input only.
    pub fn recomputes(&self, block: usize) -> bool {
        match self {
            Self::None | Self::Auto(_) => false,
            Self::Full => true,
            Self::Every(n) => *n > 0 && block.is_multiple_of(*n),
            Self::First(n) => block < *n,
            Self::Layers(layers) => layers.contains(&block),
        }
    }

    /// The number of blocks that recompute, of `blocks`.
    pub fn count(&self, blocks: usize) -> usize {
        (0..blocks).filter(|&block| self.recomputes(block)).count()
    }

    /// The first `count` of `blocks` blocks, in the shortest words.
    pub fn first(count: usize, blocks: usize) -> Self {
        match count {
            0 => Self::None,
            count if count >= blocks => Self::Full,
            count => Self::First(count),
        }
    }

    /// The largest number of blocks or index of a block that it names; a model must have more blocks than the index.
    pub fn least_blocks(&self) -> usize {
        match self {
            Self::First(n) => *n,
            Self::Layers(layers) => layers.last().map_or(0, |last| last + 1),
            Self::None | Self::Full | Self::Every(_) | Self::Auto(_) => 0,
        }
    }
}

impl Serialize for Checkpointing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn entry<S: Serializer>(serializer: S, key: &str, value: &impl Serialize) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(key, value)?;
            map.end()
        }
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Full => serializer.serialize_str("full"),
            Self::Every(n) => entry(serializer, "every", n),
            Self::First(n) => entry(serializer, "first", n),
            Self::Layers(layers) => entry(serializer, "layers", layers),
            Self::Auto(size) => entry(serializer, "auto", size),
        }
    }
}

impl<'de> Deserialize<'de> for Checkpointing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "snake_case")]
        enum Key {
            Every,
            First,
            Layers,
            Auto,
        }

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Checkpointing;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, `full`, `{every: n}`, `{first: n}`, `{layers: [...]}` or `{auto: SIZE}`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Checkpointing, E> {
                match word {
                    "none" => Ok(Checkpointing::None),
                    "full" => Ok(Checkpointing::Full),
                    _ => Err(E::invalid_type(de::Unexpected::Str(word), &self)),
                }
            }

            /// transformers' switch.
            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Checkpointing, E> {
                let word = if is_on { "true" } else { "false" };
                Err(E::unknown_variant(word, &["none", "full"]))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Checkpointing, A::Error> {
                let Some(key) = map.next_key::<Key>()? else {
                    let error = format!("expected {}, got an empty map", &self as &dyn de::Expected);
                    return Err(de::Error::custom(error));
                };
                let chosen = match key {
                    Key::Every => Checkpointing::Every(map.next_value()?),
                    Key::First => Checkpointing::First(map.next_value()?),
                    Key::Layers => {
                        let mut layers: Vec<usize> = map.next_value()?;
                        layers.sort_unstable();
                        Checkpointing::Layers(layers)
                    }
                    Key::Auto => Checkpointing::Auto(map.next_value()?),
                };
                match map.next_key::<Key>()? {
                    Some(_) => Err(de::Error::custom(format!(
                        "one of {} chooses the blocks",
                        KEYS.join(", ")
                    ))),
                    None => Ok(chosen),
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

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = ByteSize::json_schema(generator).to_value();
        let map = |key: &str, mut schema: serde_json::Value, description: &str| {
            schema["description"] = description.into();
            serde_json::json!({
                "type": "object",
                "properties": { key: schema },
                "required": [key],
                "additionalProperties": false
            })
        };
        let number = serde_json::json!({ "type": "integer", "minimum": 1 });
        let indices = serde_json::json!({
            "type": "array",
            "items": { "type": "integer", "minimum": 0 },
            "minItems": 1,
            "uniqueItems": true
        });
        json_schema!({
            "oneOf": [
                { "enum": ["none", "full"] },
                map("every", number.clone(), "The blocks whose index is a multiple of this recompute."),
                map("first", number, "So many blocks recompute, from the first: the most that this number can save."),
                map("layers", indices, "The blocks with these indices, from 0, recompute."),
                map("auto", size, "The fewest blocks with which the cell fits this size, by prediction, recompute. Resolved before the cell gets its id.")
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_chooses_its_blocks() {
        let chosen = |text: &str| {
            let checkpointing: Checkpointing = serde_json::from_str(text).unwrap();
            let blocks = (0..6).filter(|&block| checkpointing.recomputes(block));
            (blocks.collect::<Vec<_>>(), checkpointing.least_blocks())
        };
        assert_eq!(chosen(r#""none""#), (vec![], 0));
        assert_eq!(chosen(r#""full""#), (vec![0, 1, 2, 3, 4, 5], 0));
        assert_eq!(chosen(r#"{"every": 4}"#), (vec![0, 4], 0));
        assert_eq!(chosen(r#"{"first": 2}"#), (vec![0, 1], 2));
        assert_eq!(chosen(r#"{"layers": [5, 1]}"#), (vec![1, 5], 6));
        let texts = ["{}", r#"{"every": 1, "first": 2}"#, r#""most""#, "true"];
        assert!(
            texts
                .iter()
                .all(|text| serde_json::from_str::<Checkpointing>(text).is_err())
        );
    }

    #[test]
    fn the_first_blocks_have_the_shortest_words() {
        let words = [0, 1, 3, 4, 5].map(|count| Checkpointing::first(count, 4));
        assert_eq!(
            words,
            [
                Checkpointing::None,
                Checkpointing::First(1),
                Checkpointing::First(3),
                Checkpointing::Full,
                Checkpointing::Full
            ]
        );
        assert!(
            words
                .iter()
                .zip([0, 1, 3, 4, 4])
                .all(|(word, count)| word.count(4) == count)
        );
    }
}
