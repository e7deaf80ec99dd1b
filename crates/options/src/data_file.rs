//! Files of samples, and how they are read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The column of labels where the spec names none.
pub const DEFAULT_LABEL_COLUMN: &str = "label";

/// The prompt template that has a name instead of columns.
pub const ALPACA: &str = "alpaca";

/// The chat templates that have a name. The last one is the model's own.
pub const CHAT_TEMPLATES: [&str; 9] = [
    ALPACA,
    "chatml",
    "gemma",
    "llama3",
    "mistral_v1",
    "phi3",
    "qwen2_5",
    "qwen3",
    OWN_TEMPLATE,
];

/// The model's own chat template, by axolotl's name.
pub const OWN_TEMPLATE: &str = "tokenizer_default";

/// Files of samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// A file, a folder, a glob such as `texts/*.jsonl`, or a list of these, relative to the spec; or a data set of the
    /// Hugging Face Hub: `owner/name`, or `hf://datasets/owner/name@revision/file.parquet`.
    pub path: Paths,
    /// Column that holds a text, all of which is predicted. Without this key or one of the next three, the columns decide: `messages`,
    /// else `prompt` and `completion`, else `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Column that holds a prompt: a text, or a list of messages. Default: `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_column: Option<String>,
    /// Column that holds the prompt's completion, as a text that the end of text follows, or as a list of messages. Default:
    /// `completion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_column: Option<String>,
    /// Column that holds a conversation: a list of messages, each with a `role` and a `content`. Default: `messages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_column: Option<String>,
    /// A prompt made of columns, such as `"Question: {question}\nAnswer: "`, or `alpaca` for that program's words around
    /// `instruction`, `input`, `system` and `history`. Default: `alpaca` for columns `instruction` and `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_template: Option<String>,
    /// Column that holds the system's message of a conversation that has none. Default: `system`, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_column: Option<String>,
    /// Column that holds the tools of a conversation, as a list or as its JSON text. Default: `tools`, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_column: Option<String>,
    /// Field of a message that holds its role. Default: `role`, else `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_field: Option<String>,
    /// Field of a message that holds its text. Default: `content`, else `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_field: Option<String>,
    /// Roles by the names that the data have for them, such as `{pupil: user, teacher: assistant}`. Names of ShareGPT such as
    /// `human` and `gpt` are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<BTreeMap<String, String>>,
    /// File of the chat template, relative to the spec, or the name of one: alpaca, chatml, gemma, llama3, mistral_v1,
    /// phi3, qwen2_5, qwen3, or tokenizer_default for the model's own. Instructions and prompts of prompt_template
    /// become conversations with it. Default, of messages: the model's chat_template.jinja, or `chat_template` in its
    /// tokenizer_config.json.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<String>,
    /// The token that ends a completion, and a template's `eos_token`. Default: the tokenizer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_token: Option<String>,
    /// Predict the tokens of completions alone, as TRL's completion_only_loss. Default: true for prompts with completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_only_loss: Option<bool>,
    /// Predict the tokens of assistants alone, as TRL's assistant_only_loss: those that the chat template marks with
    /// `{% generation %}`, or what each of the assistant's messages adds to the text. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant_only_loss: Option<bool>,
    /// Column that holds the label, an integer from 0 or a text. Default, if labels are needed: `label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_column: Option<String>,
    /// Format of the files: `text`, `jsonl`, `json` (an array of objects), `csv` or `tsv` (values parted by commas or tabs
    /// under a header) or `parquet`. Default: by each file's extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<DataFormat>,
    /// The character that parts the values of a row, such as `;`. Default: a comma, or a tab of a .tsv.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sep: Option<String>,
    /// What a sample of a text file is, in the words of Python's datasets: `line`, `paragraph` or `document`, the whole file.
    /// Default: `paragraph`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_by: Option<SampleBy>,
    /// Samples that are read at most of each part of the data, the first ones. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_samples: Option<usize>,
    /// The split that is trained on, of a data set or of a folder: the files whose names say so, such as
    /// `train-00000-of-00002.parquet` or `test.jsonl`. Default: `train`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The data for loss_eval, written as `path`; excludes eval_fraction. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_path: Option<Paths>,
    /// The split for loss_eval, of `eval_path` or else of `path`; excludes eval_fraction. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_split: Option<String>,
    /// Other texts, written as `path`, whose loss is taken before the training and after it: what the model forgets of them.
    /// Their own columns say what they are, and the same tokens are predicted as of `path`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgetting_path: Option<Paths>,
    /// The split whose loss is taken before the training and after it, of `forgetting_path` or else of `path`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgetting_split: Option<String>,
}

impl DataFile {
    /// The files of one path, with everything else by default.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: Paths(vec![path.into()]),
            column: None,
            prompt_column: None,
            completion_column: None,
            messages_column: None,
            prompt_template: None,
            system_column: None,
            tools_column: None,
            role_field: None,
            content_field: None,
            roles: None,
            chat_template: None,
            eos_token: None,
            completion_only_loss: None,
            assistant_only_loss: None,
            label_column: None,
            format: None,
            sep: None,
            sample_by: None,
            max_samples: None,
            split: None,
            eval_path: None,
            eval_split: None,
            forgetting_path: None,
            forgetting_split: None,
        }
    }

    /// The data for evaluation, if there is some: the same but for the path and the split.
    pub fn evaluation(&self) -> Option<Self> {
        if self.eval_path.is_none() && self.eval_split.is_none() {
            return None;
        }
        Some(Self {
            path: self.eval_path.as_ref().unwrap_or(&self.path).clone(),
            split: self.eval_split.clone(),
            ..self.of_training()
        })
    }

    /// The data whose forgetting is measured, if there is some: files of any columns, with the same format and chat
    /// template, or another split of the same.
    pub fn forgetting(&self) -> Option<Self> {
        let file = match (&self.forgetting_path, &self.forgetting_split) {
            (None, None) => return None,
            (Some(path), _) => Self {
                path: path.clone(),
                format: self.format,
                sep: self.sep.clone(),
                sample_by: self.sample_by,
                max_samples: self.max_samples,
                role_field: self.role_field.clone(),
                content_field: self.content_field.clone(),
                roles: self.roles.clone(),
                chat_template: self.chat_template.clone(),
                eos_token: self.eos_token.clone(),
                ..Self::new("")
            },
            (None, Some(_)) => self.of_training(),
        };
        Some(Self {
            split: self.forgetting_split.clone(),
            ..file
        })
    }

    /// The data to train on alone.
    fn of_training(&self) -> Self {
        Self {
            eval_path: None,
            eval_split: None,
            forgetting_path: None,
            forgetting_split: None,
            ..self.clone()
        }
    }

    /// The data to train on, that for evaluation, and that whose forgetting is measured, with the keys that name them.
    pub fn parts(&self) -> Vec<DataPart> {
        let split = |key, split: &Option<String>| split.clone().map(|split| (key, split));
        let trained = DataPart {
            key: "data.path",
            split: split("data.split", &self.split),
            file: self.clone(),
        };
        let evaluated = self.evaluation().map(|file| DataPart {
            key: match self.eval_path {
                Some(_) => "data.eval_path",
                None => "data.path",
            },
            split: split("data.eval_split", &self.eval_split),
            file,
        });
        let forgetting = self.forgetting().map(|file| DataPart {
            key: match self.forgetting_path {
                Some(_) => "data.forgetting_path",
                None => "data.path",
            },
            split: split("data.forgetting_split", &self.forgetting_split),
            file,
        });
        [Some(trained), evaluated, forgetting].into_iter().flatten().collect()
    }

    /// The chat template by its name, unless it is a file's.
    pub fn named_template(&self) -> Option<&'static str> {
        let given = self.chat_template.as_deref()?;
        CHAT_TEMPLATES.into_iter().find(|name| *name == given)
    }

    /// True if tokens of prompts are not predicted.
    pub fn completion_only_loss(&self) -> bool {
        self.completion_only_loss.unwrap_or(true)
    }

    /// True if only tokens of assistants are predicted.
    pub fn assistant_only_loss(&self) -> bool {
        self.assistant_only_loss.unwrap_or(false)
    }

    /// The keys that say which columns make a sample, with their values.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let columns = [
            ("column", &self.column),
            ("prompt_column", &self.prompt_column),
            ("completion_column", &self.completion_column),
            ("messages_column", &self.messages_column),
            ("prompt_template", &self.prompt_template),
            ("system_column", &self.system_column),
            ("tools_column", &self.tools_column),
            ("role_field", &self.role_field),
            ("content_field", &self.content_field),
        ];
        let given = columns.into_iter();
        given.filter_map(|(key, column)| Some((key, column.as_deref()?)))
    }

    /// The column of the labels, where they are needed.
    pub fn label_column(&self) -> &str {
        self.label_column.as_deref().unwrap_or(DEFAULT_LABEL_COLUMN)
    }

    /// The format of a file: the one given, or the one that its extension names.
    pub fn format_of(&self, path: &str) -> Option<DataFormat> {
        self.format.or_else(|| DataFormat::of_path(path))
    }
}

/// A part of the data, which is trained on or evaluated with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPart {
    /// The key of its path.
    pub key: &'static str,
    /// The key of its split, and the split.
    pub split: Option<(&'static str, String)>,
    /// Its files.
    pub file: DataFile,
}

/// One path or several, in the order in which they are read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Paths(pub Vec<String>);

impl Paths {
    /// The paths as texts.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// One path is a text, as if it were no list.
impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [path] => serializer.serialize_str(path),
            paths => paths.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Paths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path such as `texts.jsonl`, or a list of paths")
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<Paths, E> {
                Ok(Paths(vec![path.into()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Paths, A::Error> {
                let mut paths = Vec::new();
                while let Some(path) = seq.next_element()? {
                    paths.push(path);
                }
                match paths.is_empty() {
                    true => Err(de::Error::invalid_length(0, &"one path or more")),
                    false => Ok(Paths(paths)),
                }
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for Paths {
    fn schema_name() -> Cow<'static, str> {
        "Paths".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 }
            ]
        })
    }
}

/// What a sample of a text file is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SampleBy {
    /// A line.
    Line,
    /// The lines between blank ones.
    #[default]
    Paragraph,
    /// The file.
    Document,
}

/// The ends of names of compressed files.
const COMPRESSED: [&str; 5] = [".gz", ".bz2", ".xz", ".zst", ".lz4"];

/// The format of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DataFormat {
    /// Plain text.
    Text,
    /// A JSON object a line.
    Jsonl,
    /// An array of JSON objects.
    Json,
    /// Comma-separated values under a header.
    Csv,
    /// The same with tabs.
    Tsv,
    /// Apache Parquet.
    Parquet,
}

impl DataFormat {
    /// The formats by name, for messages.
    pub const NAMES: &str = "text, jsonl, json, csv, tsv or parquet";

    /// The name in a spec.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Jsonl => "jsonl",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
        }
    }

    /// The format that the extension of a path names, before that of a compression; `None` if it names none.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.to_ascii_lowercase();
        let path = COMPRESSED
            .iter()
            .find_map(|end| path.strip_suffix(end))
            .unwrap_or(&path);
        match Path::new(path).extension().and_then(OsStr::to_str) {
            Some("txt" | "md" | "text") => Some(Self::Text),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl),
            Some("json") => Some(Self::Json),
            Some("csv") => Some(Self::Csv),
            Some("tsv") => Some(Self::Tsv),
            Some("parquet") => Some(Self::Parquet),
            _ => None,
        }
    }
}
