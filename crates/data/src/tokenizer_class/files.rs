//! The files beside a tokenizer.json.

use std::io::ErrorKind;
use std::path::Path;

use base::foreign;
use serde_json::{Map, Value};

/// The files beside tokenizer.json, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// tokenizer_config.json.
    pub(super) config: Value,
    /// The model's config.json.
    pub(super) model: Value,
    /// special_tokens_map.json.
    pub(super) special: Map<String, Value>,
    /// added_tokens.json.
    pub(super) added: Map<String, Value>,
}

impl Files {
    /// Reads them.
    ///
    /// # Errors
    /// One is there and is no JSON object; with its name.
    pub(super) fn read(dir: &Path) -> Result<Self, String> {
        let read = |name: &str| match foreign::read_small(&dir.join(name)) {
            Ok(text) => serde_json::from_slice::<Map<String, Value>>(&text)
                .map_err(|error| format!("{name} beside it is no JSON object: {error}")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Map::new()),
            Err(error) => Err(format!("cannot read {name} beside it: {error}")),
        };
        Ok(Self {
            config: read("tokenizer_config.json")?.into(),
            model: read("config.json")?.into(),
            special: read("special_tokens_map.json")?,
            added: read("added_tokens.json")?,
        })
    }

    /// A key of tokenizer_config.json that is a truth value.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.config[key].as_bool()
    }
}
