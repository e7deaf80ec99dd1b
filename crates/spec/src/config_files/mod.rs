//! Files of other libraries that a cell names in place of the keys that they stand for: `adapter_config`,
//! `accelerate_config` and `deepspeed_config`. The tree of a cell gets these keys before it is typed, each with its place in the file.

mod accelerate;
mod adapter;
mod deepspeed;
mod interface;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use base::text::hex;
use cell::Cell;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use yaml::diagnostic::Diagnostic;
use yaml::place::Sources;
use yaml::tree::{Node, Value};

pub(crate) use self::deepspeed::CASTS;
use self::interface::{Config, Key, Kind, Text};
use super::layers::Layer;
use crate::typed;

/// A kind of file. Those that are first may decide what later ones stand for.
const KINDS: [Kind; 3] = [adapter::KIND, accelerate::KIND, deepspeed::KIND];

/// The files that a spec and its overrides name.
#[derive(Debug)]
pub(crate) struct ConfigFiles {
    files: HashMap<(&'static str, String), Result<File, Diagnostic>>,
    /// The source of a recipe, to whose keys a file is preferred; `None` of a spec that a user wrote.
    recipe: Option<u32>,
}

/// A file that was read.
#[derive(Debug)]
struct File {
    name: String,
    sha256: String,
    config: Box<dyn Config>,
}

impl ConfigFiles {
    /// Reads the files. Paths are relative to `folder`.
    pub(crate) fn read(
        spec: &Node,
        recipe: Option<u32>,
        layers: &[Layer],
        folder: &Path,
        sources: &mut Sources,
    ) -> Self {
        let mut files: HashMap<_, Result<File, Diagnostic>> = HashMap::new();
        for kind in &KINDS {
            let mut names = Vec::new();
            collect(spec, kind.key, &mut names);
            for layer in layers {
                match layer.path.last().is_some_and(|key| key == kind.key) {
                    true => names.extend(layer.value.text().map(str::to_owned)),
                    false => collect(&layer.value, kind.key, &mut names),
                }
            }
            let read = files.values().filter_map(|file| file.as_ref().ok());
            let others = read.filter_map(|file| file.config.other());
            names.extend(others.filter(|(key, _)| *key == kind.key).map(|(_, name)| name));
            for name in names {
                let path = (kind.file)(folder, &name);
                files
                    .entry((kind.key, name))
                    .or_insert_with(|| File::read(kind, path, sources));
            }
        }
        Self { files, recipe }
    }

    /// SHA-256 of each adapter's configuration as it was read, by the text that names it.
    pub(crate) fn digests_of_adapters(&self) -> BTreeMap<String, String> {
        let of_adapters = self.files.iter().filter(|((key, _), _)| *key == adapter::KIND.key);
        let read = of_adapters.filter_map(|((_, name), file)| Some((name, file.as_ref().ok()?)));
        read.map(|(name, file)| (name.clone(), file.sha256.clone())).collect()
    }

    /// Puts the keys that a cell's files stand for into the cell's tree. Returns what does not suit the files, where the
    /// cell keeps its own keys. If `leaves_adapter_out`, the cell's adapter is not its file's.
    ///
    /// # Errors
    /// A file's own mistake, which leaves the cell's keys open.
    pub(crate) fn expand(&self, cell: &mut Node, leaves_adapter_out: bool) -> Result<Vec<Diagnostic>, Diagnostic> {
        let mut mistakes = Vec::new();
        for kind in &KINDS {
            if leaves_adapter_out && kind.key == adapter::KIND.key {
                continue;
            }
            let node = cell.get(&[kind.key]).filter(|node| !node.is_null());
            let file = node.and_then(|node| Some((node.place, self.files.get(&(kind.key, node.text()?.to_owned()))?)));
            let Some((place, file)) = file else { continue };
            let file = file.as_ref().map_err(|mistake| match mistake.labels.is_empty() {
                true => mistake.clone().at(place),
                false => mistake.clone(),
            })?;
            mistakes.extend(file.config.unsuited(cell, place));
            let keys = file.config.keys(cell).into_iter();
            mistakes.extend(keys.filter_map(|key| file.set(cell, key, kind, self.recipe)));
        }
        Ok(mistakes)
    }
}

impl File {
    fn read(kind: &Kind, path: Result<PathBuf, String>, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let path = path.map_err(|error| Diagnostic::new(format!("{}: {error}", kind.key)))?;
        let text = Text::read(path, kind.key, sources)?;
        Ok(Self {
            config: (kind.read)(&text)?,
            sha256: hex(&Sha256::digest(&text.text)),
            name: text.name,
        })
    }

    /// Sets a key of a cell. Returns the mistake of another value there.
    fn set(&self, cell: &mut Node, key: Key, kind: &Kind, recipe: Option<u32>) -> Option<Diagnostic> {
        let path: Vec<&str> = key.name.split('.').collect();
        let is_own = |node: &&Node| !node.is_null() && !node.is_hole() && Some(node.place.source) != recipe;
        let written = cell.get(&path).filter(is_own);
        let Some(written) = written else {
            let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
            cell.set(&path, key.value.place, key.value);
            return None;
        };
        if (kind.yields)(key.name) || says_the_same(key.name, written, &key.value) {
            return None;
        }
        let message = format!(
            "{}: another value than that of `{}` in {}",
            key.name, key.field, self.name
        );
        let mistake = Diagnostic::new(message)
            .label(written.place, key.name)
            .label(key.value.place, key.field);
        Some(mistake.help(format!("leave `{}` or `{}` out", key.name, kind.key)))
    }
}

/// Adds the values of `key` in `node`, those of an axis one by one.
fn collect(node: &Node, key: &str, names: &mut Vec<String>) {
    match &node.value {
        Value::Map(map) => {
            for (name, entry) in map.iter() {
                match &entry.value.value {
                    Value::List(list) if &**name == key => {
                        names.extend(list.iter().filter_map(Node::text).map(str::to_owned))
                    }
                    _ if &**name == key => names.extend(entry.value.text().map(str::to_owned)),
                    _ => collect(&entry.value, key, names),
                }
            }
        }
        Value::List(list) => list.iter().for_each(|node| collect(node, key, names)),
        Value::Scalar(_) | Value::Hole => {}
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
