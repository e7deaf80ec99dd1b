//! The key `adapter_config`: PEFT's `adapter_config.json` in place of the keys that it stands for. The tree of a cell
//! gets them before it is typed, each with its place in the file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use arch::norm_choices;
use base::text::{hex, quoted};
use cell::Cell;
use peft::{ConfigError, FieldError, FieldKey};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use yaml::Budget;
use yaml::diagnostic::Diagnostic;
use yaml::place::{Place, Sources};
use yaml::tree::{Node, Value};

use super::layers::Layer;
use super::read::read_text;
use crate::typed;

/// The key.
const KEY: &str = "adapter_config";
/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// The files that a spec and its overrides name, by the text that names them.
#[derive(Debug, Default)]
pub(crate) struct AdapterConfigs(HashMap<String, Result<File, Diagnostic>>);

/// What a file says.
#[derive(Debug)]
struct File {
    name: String,
    sha256: String,
    config: peft::Config,
    keys: Vec<Key>,
    fields: Fields,
}

/// A key of a cell that a field stands for.
#[derive(Debug)]
struct Key {
    name: &'static str,
    field: &'static str,
    value: Node,
}

/// Where the fields stand.
#[derive(Debug)]
struct Fields {
    tree: Option<Node>,
    source: u32,
}

impl Fields {
    /// The place of a field with its value; of the file's beginning for one that is not there.
    fn place(&self, field: &str) -> Place {
        let map = self.tree.as_ref().and_then(Node::as_map);
        match map.and_then(|map| map.get(field)) {
            Some(entry) => Place {
                end: entry.value.place.end.max(entry.key.end),
                ..entry.key
            },
            None => Place {
                source: self.source,
                start: 0,
                end: 1,
            },
        }
    }

    fn diagnostic(&self, error: &FieldError) -> Diagnostic {
        Diagnostic::of(KEY, &error.mistake).at(self.place(&error.field))
    }
}

impl AdapterConfigs {
    /// Reads the files. Paths are relative to `folder`.
    pub(crate) fn read(spec: &Node, layers: &[Layer], folder: &Path, sources: &mut Sources) -> Self {
        let mut names = Vec::new();
        collect(spec, &mut names);
        for layer in layers {
            match layer.path.last().is_some_and(|key| key == KEY) {
                true => names.extend(layer.value.text().map(str::to_owned)),
                false => collect(&layer.value, &mut names),
            }
        }
        let mut files = HashMap::new();
        for name in names {
            let path = folder.join(&name);
            files.entry(name).or_insert_with(|| File::read(&path, sources));
        }
        Self(files)
    }

    /// SHA-256 of each file as it was read, by the text that names it.
    pub(crate) fn digests(&self) -> BTreeMap<String, String> {
        let read = self
            .0
            .iter()
            .filter_map(|(name, file)| Some((name, file.as_ref().ok()?)));
        read.map(|(name, file)| (name.clone(), file.sha256.clone())).collect()
    }

    /// Puts the keys that a cell's file stands for into the cell's tree. Returns what does not suit the file, where the
    /// cell keeps its own keys.
    ///
    /// # Errors
    /// The file's own mistake, which leaves the cell's keys open.
    pub(crate) fn expand(&self, cell: &mut Node) -> Result<Vec<Diagnostic>, Diagnostic> {
        let node = cell.get(&[KEY]).filter(|node| !node.is_null());
        let Some((place, file)) = node.and_then(|node| Some((node.place, self.0.get(node.text()?)?))) else {
            return Ok(Vec::new());
        };
        let file = file.as_ref().map_err(|mistake| match mistake.labels.is_empty() {
            true => mistake.clone().at(place),
            false => mistake.clone(),
        })?;
        let mut mistakes = Vec::new();
        mistakes.extend(file.other_task(cell, place));
        mistakes.extend(file.no_targets(cell, place));
        for key in &file.keys {
            let path: Vec<&str> = key.name.split('.').collect();
            match cell.get(&path).filter(|node| !node.is_null() && !node.is_hole()) {
                None => {
                    let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
                    cell.set(&path, key.value.place, key.value.clone());
                }
                Some(written) if says_the_same(key.name, written, &key.value) => {}
                Some(written) => {
                    let message = format!(
                        "{}: another value than that of `{}` in {}",
                        key.name, key.field, file.name
                    );
                    let mistake = Diagnostic::new(message)
                        .label(written.place, key.name)
                        .label(key.value.place, key.field);
                    mistakes.push(mistake.help(format!("leave `{}` or `{KEY}` out", key.name)));
                }
            }
        }
        Ok(mistakes)
    }
}

/// Adds the values of the key in `node`, those of an axis one by one.
fn collect(node: &Node, names: &mut Vec<String>) {
    match &node.value {
        Value::Map(map) => {
            for (name, entry) in map.iter() {
                match &entry.value.value {
                    Value::List(list) if &**name == KEY => {
                        names.extend(list.iter().filter_map(Node::text).map(str::to_owned))
                    }
                    _ if &**name == KEY => names.extend(entry.value.text().map(str::to_owned)),
                    _ => collect(&entry.value, names),
                }
            }
        }
        Value::List(list) => list.iter().for_each(|node| collect(node, names)),
        Value::Scalar(_) | Value::Hole => {}
    }
}

impl File {
    fn read(path: &Path, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let path = peft::config_file(path);
        let text = read_text(&path, LARGEST);
        let text = text.map_err(|error| Diagnostic::new(format!("{KEY}: {}", error.message())))?;
        let name = path.display().to_string();
        let source = sources.add(name.as_str(), text.as_str());
        let config = peft::parse_config(text.as_bytes());
        let fields = Fields {
            tree: yaml::parse(&text, source, 0, Budget::SPEC).ok(),
            source,
        };
        let config = config.map_err(|error| match error {
            ConfigError::Json(error) => {
                let place = place_of(&error, &text, source);
                Diagnostic::new(format!("{KEY}: not an adapter's configuration: {error}")).at(place)
            }
            ConfigError::Field(error) => fields.diagnostic(&error),
        })?;
        let norms: Vec<_> = norm_choices().collect();
        let checked = config.check_start().and_then(|()| config.check_norms(&norms));
        let keys = checked.and_then(|()| config.keys());
        let keys = keys.map_err(|error| fields.diagnostic(&error))?;
        let stated = |(field, name, value): FieldKey| Key {
            name,
            field,
            value: Node::of_json(&value, fields.place(field)),
        };
        Ok(Self {
            keys: keys.into_iter().map(stated).collect(),
            name,
            sha256: hex(&Sha256::digest(&text)),
            config,
            fields,
        })
    }

    /// The mistake of a configuration for another task than the cell's.
    fn other_task(&self, cell: &Node, place: Place) -> Option<Diagnostic> {
        let task_type = self.config.task_type()?;
        let mut tree = Node::empty_map(place);
        let written = cell.get(&["task"]);
        if let Some(task) = written {
            tree.set(&["task".to_owned()], task.place, task.clone());
        }
        let task = typed::read::<Cell>(&tree).ok()?.task;
        if peft::task_type(task) == task_type {
            return None;
        }
        let message = format!(
            "task: {} is not `task_type: {task_type}` of {}",
            quoted(task.name()),
            self.name
        );
        let mistake = Diagnostic::new(message).label(written.map_or(place, |task| task.place), "");
        Some(mistake.label(self.fields.place("task_type"), "task_type"))
    }

    /// The mistake of a configuration that leaves the modules open where PEFT would choose.
    fn no_targets(&self, cell: &Node, place: Place) -> Option<Diagnostic> {
        let targets = "target_modules";
        let is_written = cell.get(&[targets]).is_some_and(|written| !written.is_null());
        if !self.config.adapter().is_of_all_layers() || self.config.target_modules.is_some() || is_written {
            return None;
        }
        let message = format!(
            "{KEY}: `{targets}` is left open in {}, and PEFT would choose by the model",
            self.name
        );
        let mistake = Diagnostic::new(message).label(place, "");
        let mistake = mistake.label(self.fields.place(targets), targets);
        Some(mistake.help(format!("write `{targets}` beside `{KEY}`")))
    }
}

/// True if a key has the same meaning with both values. One that it cannot have is a mistake of its own.
fn says_the_same(key: &str, a: &Node, b: &Node) -> bool {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    let value = |node: &Node| -> Option<Json> {
        let mut tree = Node::empty_map(node.place);
        tree.set(&path, node.place, node.clone());
        let cell = typed::read::<Cell>(&tree).ok()?;
        Some(cell.with_plain_meaning().value(key))
    };
    match (value(a), value(b)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// The character at which the reader of JSON stopped.
fn place_of(error: &serde_json::Error, text: &str, source: u32) -> Place {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let start = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let start = start.min(text.len().saturating_sub(1)) as u32;
    Place {
        source,
        start,
        end: start + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, parse};

    #[test]
    fn the_hash_is_that_of_the_text_that_the_keys_came_from() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let text = r#"{"peft_type": "LORA", "r": 3, "target_modules": ["q_proj"]}"#;
        std::fs::write(&file, text).unwrap();
        let spec = "name: x\ndefaults: {model: tiny}\nsweep: {grid: {adapter_config: [config.json, null]}}\n";
        let study = parse(&dir.path().join("x.yaml"), spec, &Overrides::default()).unwrap();
        std::fs::write(&file, text.replace('3', "4")).unwrap();
        let hashes = study.cells.iter().map(|cell| study.adapter_config_sha256(&cell.cell));
        let hashes: Vec<Option<String>> = hashes.collect();
        assert_eq!(hashes, [Some(hex(&Sha256::digest(text))), None]);
        assert_eq!(study.cells[0].cell.rank, 3);
    }
}
