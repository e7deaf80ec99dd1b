//! The training data of a cell.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{did_you_mean, nearest, quoted};

/// `synthetic`, `sample`, `{synthetic: {lengths, samples}}`, `{path, column, label_column, format}`, or `hf://owner/name`.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Seeded random token ids.
    Synthetic(Synthetic),
    /// The text that comes with expctl, one sample a paragraph.
    Sample,
    /// A file.
    File(DataFile),
}

impl Data {
    /// True if all samples have the same length: `max_seq_length`.
    pub fn is_even(&self) -> bool {
        matches!(self, Self::Synthetic(synthetic) if synthetic.lengths == Lengths::Fixed)
    }
}

/// Random token ids with a stated distribution of lengths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Synthetic {
    /// Tokens a sample: `fixed` (max_seq_length), `uniform` (from 2 to max_seq_length), or a list that is taken in
    /// turn.
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

/// `fixed`, `uniform`, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lengths {
    /// Every sample is `max_seq_length` long.
    Fixed,
    /// Uniform between 2 and `max_seq_length`.
    Uniform,
    /// These lengths in turn.
    List(Vec<usize>),
}

/// The column of labels where the spec names none.
pub const DEFAULT_LABEL_COLUMN: &str = "label";

/// A file of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// Path of the file, relative to the spec; or a data set of the Hugging Face Hub: `owner/name`, or
    /// `hf://datasets/owner/name@revision/file.parquet`.
    pub path: String,
    /// Field of JSONL or column of Parquet that holds the text. Default: `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Field or column that holds the label, an integer from 0 or a text. Default, if labels are needed: `label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_column: Option<String>,
    /// File format: `text` (one sample a paragraph), `jsonl` or `parquet`. Default: by the file's extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<DataFormat>,
}

/// The format of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DataFormat {
    /// Plain text, one sample a paragraph.
    Text,
    /// A JSON object a line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
}

impl DataFile {
    /// The field or column that holds the labels, where they are needed.
    pub fn label_column(&self) -> &str {
        self.label_column.as_deref().unwrap_or(DEFAULT_LABEL_COLUMN)
    }

    /// The file's format: the one given, or the one that its extension names; `None` for a data set of the hub, whose files
    /// have names of their own.
    pub fn format(&self) -> Option<DataFormat> {
        self.format.or_else(|| DataFormat::of_path(&self.path))
    }
}

impl DataFormat {
    /// The format that the extension of a path names; `None` if it names none.
    pub fn of_path(path: &str) -> Option<Self> {
        let extension = Path::new(path).extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("txt" | "md" | "text") => Some(Self::Text),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl),
            Some("parquet") => Some(Self::Parquet),
            _ => None,
        }
    }
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
                    name if name.starts_with("hf://") => Ok(Data::File(DataFile {
                        path: name.into(),
                        column: None,
                        label_column: None,
                        format: None,
                    })),
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
                DataKeys::collect(map)?.into_data()
            }
        }

        deserializer.deserialize_any(Words)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum DataKey {
    Synthetic,
    Path,
    Column,
    LabelColumn,
    Format,
}

/// All keys that a map of data may have, before it is known which kind it is.
#[derive(Default)]
struct DataKeys {
    synthetic: Option<Synthetic>,
    path: Option<String>,
    column: Option<String>,
    label_column: Option<String>,
    format: Option<DataFormat>,
}

impl DataKeys {
    fn collect<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut keys = Self::default();
        while let Some(key) = map.next_key()? {
            match key {
                DataKey::Synthetic => keys.synthetic = Some(map.next_value()?),
                DataKey::Path => keys.path = Some(map.next_value()?),
                DataKey::Column => keys.column = map.next_value()?,
                DataKey::LabelColumn => keys.label_column = map.next_value()?,
                DataKey::Format => keys.format = map.next_value()?,
            }
        }
        Ok(keys)
    }

    fn into_data<E: de::Error>(self) -> Result<Data, E> {
        let Self {
            synthetic,
            path,
            column,
            label_column,
            format,
        } = self;
        match (synthetic, path) {
            (Some(synthetic), None) if column.is_none() && label_column.is_none() && format.is_none() => {
                Ok(Data::Synthetic(synthetic))
            }
            (Some(_), _) => Err(E::custom(
                "`synthetic` and a file's keys (path, column, label_column, format) exclude each other",
            )),
            (None, Some(path)) => Ok(Data::File(DataFile {
                path,
                column,
                label_column,
                format,
            })),
            (None, None) => Err(E::missing_field("path")),
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
        }
    }
}

impl<'de> Deserialize<'de> for Lengths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Lengths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`fixed`, `uniform` or a list of token counts such as `[64, 128]`")
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
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for Lengths {
    fn schema_name() -> Cow<'static, str> {
        "Lengths".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "enum": ["fixed", "uniform"] },
                { "type": "array", "items": { "type": "integer", "minimum": 2 }, "minItems": 1 }
            ]
        })
    }
}
