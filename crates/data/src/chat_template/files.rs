//! The files of a checkpoint that tell its chat template and its special tokens.

use std::io::ErrorKind;
use std::path::Path;

use arch::Location;
use base::foreign;
use serde_json::{Map, Value};

use crate::ChatTemplateError;

const TEMPLATE: &str = "chat_template.jinja";
const CONFIG: &str = "tokenizer_config.json";
const TOKENS_MAP: &str = "special_tokens_map.json";

/// The special tokens of a tokenizer by name, such as `bos_token`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpecialTokens {
    pub(super) by_name: Map<String, Value>,
}

impl SpecialTokens {
    /// Those of a model, as transformers reads them: of its tokenizer_config.json, and over these of its
    /// special_tokens_map.json, unless the former lists all added tokens, as newer checkpoints do.
    pub(crate) fn of(location: &Location) -> Result<Self, ChatTemplateError> {
        let Location::Directory(dir) = location else {
            return Ok(Self::default());
        };
        let mut config = read_json(&dir.join(CONFIG))?.unwrap_or_default();
        if !config.contains_key("added_tokens_decoder") {
            config.extend(read_json(&dir.join(TOKENS_MAP))?.unwrap_or_default());
        }
        let token = |(name, value): (String, Value)| {
            // A token with its settings has its text in `content`.
            let text = value.get("content").unwrap_or(&value);
            (name.ends_with("_token") && text.is_string()).then(|| (name, text.clone()))
        };
        Ok(Self {
            by_name: config.into_iter().filter_map(token).collect(),
        })
    }

    /// With another token that ends a text, if it is given.
    pub(crate) fn with_eos(mut self, eos: Option<String>) -> Self {
        if let Some(eos) = eos {
            self.by_name.insert("eos_token".into(), eos.into());
        }
        self
    }

    /// The text of the token that ends a text.
    pub(crate) fn eos(&self) -> Option<&str> {
        self.by_name.get("eos_token")?.as_str()
    }
}

/// The file of the template, and its text: that in the file `given`, or else the model's own.
pub(super) fn find(given: Option<&Path>, location: &Location) -> Result<(String, String), ChatTemplateError> {
    if let Some(path) = given {
        let text = foreign::read_template(path).map_err(|error| unreadable(path, &error))?;
        return Ok((path.display().to_string(), text));
    }
    let dir = match location {
        Location::Directory(dir) => dir,
        Location::Preset(preset) => {
            return Err(ChatTemplateError::Missing {
                looked_at: format!("the preset `{}`", preset.name()),
            });
        }
    };
    let path = dir.join(TEMPLATE);
    match foreign::read_template(&path) {
        Ok(text) => return Ok((path.display().to_string(), text)),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&path, &error)),
    }
    let place = dir.join(CONFIG).display().to_string();
    let missing = || ChatTemplateError::Missing {
        looked_at: format!("{}, {place}", path.display()),
    };
    let config = read_json(&dir.join(CONFIG))?.ok_or_else(missing)?;
    match config.get("chat_template") {
        None | Some(Value::Null) => Err(missing()),
        Some(Value::String(text)) => Ok((place, text.clone())),
        Some(Value::Array(named)) => {
            let default = named.iter().find(|template| template["name"] == "default");
            let text = default.and_then(|template| template["template"].as_str());
            let names = || {
                let names = named.iter().filter_map(|template| template["name"].as_str());
                names.collect::<Vec<_>>().join(", ")
            };
            let text = text.ok_or_else(|| ChatTemplateError::Invalid {
                place: place.clone(),
                reason: format!(
                    "`chat_template` has no template `default` among its templates ({}); write the one to use into a file, \
                     and name it: `data: {{chat_template: FILE}}`",
                    names()
                ),
            })?;
            Ok((place, text.to_owned()))
        }
        Some(_) => Err(ChatTemplateError::Invalid {
            place,
            reason: "`chat_template` is neither a text nor a list of named templates".into(),
        }),
    }
}

/// The object in a file; `None` if there is no such file.
fn read_json(path: &Path) -> Result<Option<Map<String, Value>>, ChatTemplateError> {
    let text = match foreign::read_small(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let object = serde_json::from_slice(&text).map_err(|error| ChatTemplateError::Invalid {
        place: format!("{}:{}:{}", path.display(), error.line(), error.column()),
        reason: format!("not a JSON object: {error}"),
    })?;
    Ok(Some(object))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ChatTemplateError {
    ChatTemplateError::Read {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}
