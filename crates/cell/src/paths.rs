//! The keys of a cell that name files.

use std::path::Path;

use hub::HubName;
use options::CHAT_TEMPLATES;
use serde_json::Value;

use super::Cell;

/// What a path may name besides a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    /// A preset, or a model of the Hugging Face Hub.
    Model,
    /// An adapter of the Hub.
    Adapter,
    /// A data set of the Hub.
    DataSet,
    /// A chat template by name.
    Template,
    /// Nothing.
    None,
}

/// The keys of a cell that name files, relative to the spec.
const PATHS: [(&str, Other); 9] = [
    ("model", Other::Model),
    ("adapter_config", Other::Adapter),
    ("accelerate_config", Other::None),
    ("deepspeed_config", Other::None),
    ("init_adapter", Other::None),
    ("data.path", Other::DataSet),
    ("data.eval_path", Other::DataSet),
    ("data.forgetting_path", Other::DataSet),
    ("data.chat_template", Other::Template),
];

/// The keys of a cell that name files, relative to the spec: a path, or a list of paths.
pub fn path_keys() -> impl Iterator<Item = &'static str> {
    PATHS.into_iter().map(|(key, _)| key)
}

impl Cell {
    /// The cell with absolute paths in place of those that are relative to `folder`.
    pub fn anchored(&self, folder: &Path) -> Self {
        let mut cell = self.clone();
        for (key, other) in PATHS {
            let absolute = |value: &Value| match value.as_str() {
                Some(path) if !self.is_other(other, path, folder) => folder.join(path).display().to_string().into(),
                _ => value.clone(),
            };
            let value = match cell.value(key) {
                Value::Null => continue,
                Value::Array(paths) => paths.iter().map(absolute).collect(),
                path => absolute(&path),
            };
            // A key that takes a path takes another one.
            cell = cell.with(key, &value).unwrap_or(cell);
        }
        cell
    }

    /// True if the text of a path names something that is no file.
    fn is_other(&self, other: Other, path: &str, folder: &Path) -> bool {
        let name = match other {
            Other::Model if self.is_preset() => return true,
            Other::Model | Other::Adapter => HubName::of_model(path),
            Other::DataSet => HubName::of_data(path),
            Other::Template => return CHAT_TEMPLATES.contains(&path) && !folder.join(path).exists(),
            Other::None => return false,
        };
        name.is_ok_and(|name| name.is_some()) && !folder.join(path).exists()
    }
}

#[cfg(test)]
mod tests {
    use options::{Data, DataFile, Paths};

    use super::*;
    use crate::keys::keys;

    #[test]
    fn paths_are_made_absolute_and_names_stay() {
        let paths = |paths: [&str; 2]| Some(Paths(paths.map(str::to_owned).to_vec()));
        let data = DataFile {
            eval_path: paths(["b.jsonl", "owner/name"]),
            forgetting_path: paths(["/c.txt", "texts/*.txt"]),
            chat_template: Some("owner/name".into()),
            ..DataFile::new("a.jsonl")
        };
        let cell = Cell {
            model: "owner/model".into(),
            adapter_config: Some("config.json".into()),
            init_adapter: Some("adapter".into()),
            data: data.into(),
            ..Cell::default()
        };
        let anchored = cell.anchored(Path::new("/spec"));
        assert_eq!(anchored.model, "owner/model");
        assert_eq!(anchored.adapter_config.as_deref(), Some("/spec/config.json"));
        assert_eq!(anchored.init_adapter.as_deref(), Some("/spec/adapter"));
        let Data::File(file) = anchored.data else {
            panic!("{:?}", anchored.data)
        };
        assert_eq!(file.path.to_string(), "/spec/a.jsonl");
        assert_eq!(file.eval_path, paths(["/spec/b.jsonl", "owner/name"]));
        assert_eq!(file.forgetting_path, paths(["/c.txt", "/spec/texts/*.txt"]));
        assert_eq!(file.chat_template.as_deref(), Some("/spec/owner/name"));
        assert_eq!(
            Cell::default().anchored(Path::new("/spec")),
            Cell::default(),
            "a preset"
        );
    }

    #[test]
    fn every_path_is_a_key() {
        let is_key = |path: &str| keys().iter().any(|key| key.path == path);
        assert!(path_keys().all(is_key));
        // A key whose name says that it is a path is in the list.
        let named = keys().iter().filter(|key| key.path.ends_with("path"));
        assert!(named.into_iter().all(|key| path_keys().any(|path| path == key.path)));
    }
}
