//! The tensors that wait in the host's memory while the device does not need them.

use std::borrow::Cow;
use std::fmt;

use base::text::Mistake;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The tensors that wait in the host's memory: `none`, or a map of what leaves the device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offload {
    /// The blocks whose base weights leave.
    pub weights: Option<OffloadedBlocks>,
    /// True if the tables of the embedding and the head leave.
    pub embeddings: bool,
    /// True if the optimizer's state and the gradients of blocks leave.
    pub optimizer: bool,
    /// True if the inputs of blocks that recompute leave.
    pub checkpoints: bool,
}

/// Blocks of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum OffloadedBlocks {
    /// This share of the blocks, rounded down: the last ones.
    Ratio(f64),
    /// The blocks with these indices, from 0.
    Blocks(Vec<usize>),
}

impl Offload {
    /// Nothing.
    pub const NONE: Self = Self {
        weights: None,
        embeddings: false,
        optimizer: false,
        checkpoints: false,
    };

    /// True if the base weights of block `index` leave, of a model with `blocks` blocks.
    pub fn has_block(&self, index: usize, blocks: usize) -> bool {
        self.weights
            .as_ref()
            .is_some_and(|weights| weights.contains(index, blocks))
    }
}

impl OffloadedBlocks {
    /// True for a block that leaves, of a model with `blocks` blocks.
    pub fn contains(&self, index: usize, blocks: usize) -> bool {
        match self {
            Self::Ratio(ratio) => index + share(*ratio, blocks) >= blocks,
            Self::Blocks(indices) => indices.contains(&index),
        }
    }

    /// The number of blocks that leave, of a model with `blocks` blocks.
    pub fn count(&self, blocks: usize) -> usize {
        (0..blocks).filter(|&index| self.contains(index, blocks)).count()
    }
}

impl OffloadedBlocks {
    /// Checks that a model with `blocks` blocks has these, and that there are any.
    ///
    /// # Errors
    /// Names the block, or the least ratio.
    pub fn check(&self, blocks: usize) -> Result<(), Mistake> {
        match self {
            Self::Blocks(indices) => match indices.iter().find(|&&index| index >= blocks) {
                Some(index) => Err(Mistake::new(format!("the model has no block {index}"))
                    .help(format!("its {blocks} blocks are 0 to {}", blocks - 1))),
                None => Ok(()),
            },
            Self::Ratio(ratio) if self.count(blocks) == 0 => {
                // To three digits, and not below it.
                let one = (1000.0 / blocks as f64).ceil() / 1000.0;
                Err(Mistake::new(format!(
                    "{ratio} of {blocks} blocks is less than a block, so none is offloaded"
                ))
                .help(format!("one block is `{{ratio: {one}}}`")))
            }
            Self::Ratio(_) => Ok(()),
        }
    }
}

/// The whole blocks in a share of them.
fn share(ratio: f64, blocks: usize) -> usize {
    (blocks as f64 * ratio) as usize
}

impl Serialize for Offload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::NONE {
            return serializer.serialize_str("none");
        }
        let mut map = serializer.serialize_map(None)?;
        if let Some(weights) = &self.weights {
            map.serialize_entry("weights", weights)?;
        }
        let parts = [
            ("embeddings", self.embeddings),
            ("optimizer", self.optimizer),
            ("checkpoints", self.checkpoints),
        ];
        for (key, _) in parts.into_iter().filter(|(_, leaves)| *leaves) {
            map.serialize_entry(key, &true)?;
        }
        map.end()
    }
}

impl Serialize for OffloadedBlocks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ratio(ratio) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("ratio", ratio)?;
                map.end()
            }
            Self::Blocks(indices) => indices.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Offload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "snake_case")]
        enum Key {
            Weights,
            Embeddings,
            Optimizer,
            Checkpoints,
        }

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Offload;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none` or a map such as `{weights: {ratio: 0.5}, optimizer: true}`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Offload, E> {
                match word {
                    "none" => Ok(Offload::NONE),
                    _ => Err(E::invalid_type(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Offload, A::Error> {
                let mut offload = Offload::NONE;
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::Weights => offload.weights = map.next_value()?,
                        Key::Embeddings => offload.embeddings = map.next_value()?,
                        Key::Optimizer => offload.optimizer = map.next_value()?,
                        Key::Checkpoints => offload.checkpoints = map.next_value()?,
                    }
                }
                Ok(offload)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl<'de> Deserialize<'de> for OffloadedBlocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "snake_case")]
        enum Key {
            Ratio,
        }

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = OffloadedBlocks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`{ratio: 0.5}` or a list of blocks such as `[4, 5]`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OffloadedBlocks, A::Error> {
                let Some(Key::Ratio) = map.next_key()? else {
                    return Err(de::Error::missing_field("ratio"));
                };
                let ratio = map.next_value()?;
                match map.next_key()? {
                    Some(Key::Ratio) => Err(de::Error::duplicate_field("ratio")),
                    None => Ok(OffloadedBlocks::Ratio(ratio)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OffloadedBlocks, A::Error> {
                let mut indices = Vec::new();
                while let Some(index) = list.next_element()? {
                    indices.push(index);
                }
                Ok(OffloadedBlocks::Blocks(indices))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for Offload {
    fn schema_name() -> Cow<'static, str> {
        "Offload".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "none" },
                {
                    "type": "object",
                    "properties": {
                        "weights": {
                            "description": "The blocks whose base weights leave: {ratio: 0.5} is the last half of them.",
                            "oneOf": [
                                {
                                    "type": "object",
                                    "properties": {
                                        "ratio": {
                                            "type": "number",
                                            "minimum": 0,
                                            "maximum": 1,
                                            "description": "The share of the blocks, rounded down: the last ones."
                                        }
                                    },
                                    "required": ["ratio"],
                                    "additionalProperties": false
                                },
                                {
                                    "type": "array",
                                    "items": { "type": "integer", "minimum": 0 },
                                    "minItems": 1,
                                    "uniqueItems": true
                                }
                            ]
                        },
                        "embeddings": {
                            "type": "boolean",
                            "description": "The tables of the embedding and the head, which come back by rows."
                        },
                        "optimizer": {
                            "type": "boolean",
                            "description": "The optimizer's state and the gradients of blocks, which come back for one parameter at a time."
                        },
                        "checkpoints": {
                            "type": "boolean",
                            "description": "The inputs of the blocks that gradient_checkpointing recomputes."
                        }
                    },
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_the_last_blocks() {
        let half = OffloadedBlocks::Ratio(0.5);
        let of = |blocks: usize| -> Vec<usize> { (0..blocks).filter(|&at| half.contains(at, blocks)).collect() };
        assert_eq!((of(4), of(5), of(1)), (vec![2, 3], vec![3, 4], vec![]));
        assert_eq!(OffloadedBlocks::Ratio(1.0).count(5), 5);
        assert_eq!(OffloadedBlocks::Blocks(vec![0, 3]).count(5), 2);
    }

    #[test]
    fn blocks_must_be_the_models_and_some() {
        assert_eq!(OffloadedBlocks::Blocks(vec![0, 4]).check(5), Ok(()));
        let message = |blocks: OffloadedBlocks| blocks.check(5).unwrap_err().to_string();
        assert!(message(OffloadedBlocks::Blocks(vec![5])).contains("0 to 4"));
        assert!(message(OffloadedBlocks::Ratio(0.19)).contains("{ratio: 0.2}"));
        assert_eq!(OffloadedBlocks::Ratio(0.2).check(5), Ok(()));
    }

    #[test]
    fn a_map_that_moves_nothing_is_none() {
        let read = |json: &str| serde_json::from_str::<Offload>(json).unwrap();
        assert_eq!(read("{}"), Offload::NONE);
        assert_eq!(
            serde_json::to_string(&read(r#"{"optimizer": false}"#)).unwrap(),
            r#""none""#
        );
        let text = r#"{"weights":{"ratio":0.5},"checkpoints":true}"#;
        assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
    }
}
