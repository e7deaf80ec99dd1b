//! The training data of a cell.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base::text::{did_you_mean, nearest, quoted};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::data_file::{DataFile, DataFormat, Paths, SampleBy};

/// `synthetic`, `sample`, `{synthetic: {lengths, samples}}`, `{path, ...}`, or `hf://owner/name`.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Seeded random token ids.
    Synthetic(Synthetic),
    /// The text that comes with expctl, one sample a paragraph.
    Sample,
    /// Files of samples.
    File(Box<DataFile>),
}

impl Data {
    /// True if all samples have the same length: `max_seq_length`.
    pub fn is_even(&self) -> bool {
        matches!(self, Self::Synthetic(synthetic) if synthetic.lengths == Lengths::Fixed)
    }
}

impl From<DataFile> for Data {
    fn from(file: DataFile) -> Self {
        Self::File(Box::new(file))
    }
}

/// Random token ids with a stated distribution of lengths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Synthetic {
    /// Tokens a sample: `fixed` (max_seq_length), `uniform` (from 2 to max_seq_length), a list that is taken in turn, or
    /// `{mean, sigma, longest}`, a log-normal distribution.
    pub lengths: Lengths,
    /// Number of samples.
    #[schemars(range(min = 1))]
    pub samples: usize,
    /// The fewest and the most tokens that a sample may have, such as `[20, 2048]`, if `lengths` only stand for data that is
    /// not known. Plans of PyTorch's stack then give the memory of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<[usize; 2]>,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            lengths: Lengths::Fixed,
            samples: 1024,
            between: None,
        }
    }
}

/// `fixed`, `uniform`, a list, or a log-normal distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Every sample is `max_seq_length` long.
    Fixed,
    /// Uniform between 2 and `max_seq_length`.
    Uniform,
    /// These lengths in turn.
    List(Vec<usize>),
    /// Drawn by the seed.
    LogNormal(LogNormal),
}

/// A log-normal distribution of lengths: their logarithms are normal, as those of texts nearly are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogNormal {
    /// The mean of the lengths in tokens, before any is cut.
    #[schemars(range(min = 2))]
    pub mean: f64,
    /// The standard deviation of their logarithms.
    #[schemars(range(min = 0))]
    pub sigma: f64,
    /// The length of the longest sample. Longer draws are cut to it; if there are none, the longest draw gets it. Default:
    /// as drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub longest: Option<usize>,
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Synthetic(synthetic) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("synthetic", synthetic)?;
                map.end()
            }
            Self::Sample => serializer.serialize_str("sample"),
            Self::File(file) => file.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "`synthetic`, `sample`, `{synthetic: {...}}` or `{path: ...}`";

        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Data;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Data, E> {
                match word {
                    "synthetic" => Ok(Data::Synthetic(Synthetic::default())),
                    "sample" => Ok(Data::Sample),
                    name if name.starts_with("hf://") => Ok(DataFile::new(name).into()),
                    _ => {
                        let meant = match nearest(word, ["synthetic", "sample"]) {
                            Some(near) => did_you_mean(near),
                            None => format!("a file is written {}", quoted(&format!("{{path: {word}}}"))),
                        };
                        Err(E::custom(format_args!(
                            "expected {EXPECTED}, got {}; {meant}",
                            quoted(word)
                        )))
                    }
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Data, A::Error> {
                DataKeys::deserialize(MapAccessDeserializer::new(map))?.into_data()
            }
        }

        deserializer.deserialize_any(Words)
    }
}

/// All keys that a map of data may have, before it is known which kind it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataKeys {
    synthetic: Option<Synthetic>,
    path: Option<Paths>,
    column: Option<String>,
    prompt_column: Option<String>,
    completion_column: Option<String>,
    messages_column: Option<String>,
    prompt_template: Option<String>,
    system_column: Option<String>,
    tools_column: Option<String>,
    role_field: Option<String>,
    content_field: Option<String>,
    roles: Option<BTreeMap<String, String>>,
    chat_template: Option<String>,
    eos_token: Option<String>,
    completion_only_loss: Option<bool>,
    assistant_only_loss: Option<bool>,
    label_column: Option<String>,
    format: Option<DataFormat>,
    sep: Option<String>,
    sample_by: Option<SampleBy>,
    max_samples: Option<usize>,
    split: Option<String>,
    eval_path: Option<Paths>,
    eval_split: Option<String>,
    forgetting_path: Option<Paths>,
    forgetting_split: Option<String>,
}

impl DataKeys {
    fn into_data<E: de::Error>(self) -> Result<Data, E> {
        let file = DataFile {
            path: self.path.unwrap_or_default(),
            column: self.column,
            prompt_column: self.prompt_column,
            completion_column: self.completion_column,
            messages_column: self.messages_column,
            prompt_template: self.prompt_template,
            system_column: self.system_column,
            tools_column: self.tools_column,
            role_field: self.role_field,
            content_field: self.content_field,
            roles: self.roles,
            chat_template: self.chat_template,
            eos_token: self.eos_token,
            completion_only_loss: self.completion_only_loss,
            assistant_only_loss: self.assistant_only_loss,
            label_column: self.label_column,
            format: self.format,
            sep: self.sep,
            sample_by: self.sample_by,
            max_samples: self.max_samples,
            split: self.split,
            eval_path: self.eval_path,
            eval_split: self.eval_split,
            forgetting_path: self.forgetting_path,
            forgetting_split: self.forgetting_split,
        };
        let has_path = !file.path.0.is_empty();
        let is_bare = file
            == DataFile {
                path: Paths::default(),
                ..DataFile::new("")
            };
        match self.synthetic {
            Some(synthetic) if is_bare => Ok(Data::Synthetic(synthetic)),
            Some(_) => Err(E::custom("`synthetic` and the keys of files exclude each other")),
            None if has_path => Ok(file.into()),
            None => Err(E::missing_field("path")),
        }
    }
}

impl JsonSchema for Data {
    fn schema_name() -> Cow<'static, str> {
        "Data".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let synthetic = generator.subschema_for::<Synthetic>();
        let file = generator.subschema_for::<DataFile>();
        json_schema!({
            "oneOf": [
                { "enum": ["synthetic", "sample"] },
                { "type": "string", "pattern": "^hf://" },
                {
                    "type": "object",
                    "properties": { "synthetic": synthetic },
                    "required": ["synthetic"],
                    "additionalProperties": false
                },
                file
            ]
        })
    }
}

impl Serialize for Lengths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed => serializer.serialize_str("fixed"),
            Self::Uniform => serializer.serialize_str("uniform"),
            Self::List(lengths) => lengths.serialize(serializer),
            Self::LogNormal(distribution) => distribution.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Lengths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Lengths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`fixed`, `uniform`, a list of token counts such as `[64, 128]` or `{mean, sigma}`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Lengths, E> {
                match word {
                    "fixed" => Ok(Lengths::Fixed),
                    "uniform" => Ok(Lengths::Uniform),
                    _ => Err(E::invalid_type(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Lengths, A::Error> {
                let mut lengths = Vec::new();
                while let Some(length) = seq.next_element()? {
                    lengths.push(length);
                }
                Ok(Lengths::List(lengths))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Lengths, A::Error> {
                LogNormal::deserialize(MapAccessDeserializer::new(map)).map(Lengths::LogNormal)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for Lengths {
    fn schema_name() -> Cow<'static, str> {
        "Lengths".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let distribution = generator.subschema_for::<LogNormal>();
        json_schema!({
            "oneOf": [
                { "enum": ["fixed", "uniform"] },
                { "type": "array", "items": { "type": "integer", "minimum": 2 }, "minItems": 1 },
                distribution
            ]
        })
    }
}
