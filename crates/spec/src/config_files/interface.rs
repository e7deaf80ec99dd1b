//! What the kinds of files have in common.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use base::text::Mistake;
use cell::Cell;
use serde_json::{Value as Json, json};
use yaml::Budget;
use yaml::diagnostic::Diagnostic;
use yaml::place::{Place, Sources};
use yaml::tree::Node;

use super::super::read::read_text;
use crate::typed;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// A kind of file.
pub(super) struct Kind {
    /// The key that names it.
    pub(super) key: &'static str,
    /// True if this key of the cell has the last word beside the file; another value is otherwise a mistake.
    pub(super) yields: fn(&str) -> bool,
    /// The file that a text stands for, in a spec of this folder.
    pub(super) file: fn(&Path, &str) -> Result<PathBuf, String>,
    pub(super) read: fn(&Text) -> Result<Box<dyn Config>, Diagnostic>,
}

/// What a file says.
pub(super) trait Config: Debug {
    /// The keys that it stands for in a cell.
    fn keys(&self, cell: &Node) -> Vec<Key>;

    /// Another file that it names, with the key that names such a file in a cell.
    fn other(&self) -> Option<(&'static str, String)> {
        None
    }

    /// What does not suit it in a cell, which names it at a place.
    fn unsuited(&self, _: &Node, _: Place) -> Vec<Diagnostic> {
        Vec::new()
    }
}

/// A key of a cell that a field stands for.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) field: &'static str,
    pub(super) value: Node,
}

/// The fields of a file, as keys and mistakes are made of them.
pub(super) trait ReadFields {
    /// The key that names the file.
    const KIND: &'static str;

    /// The place of a field, or of what stands for one that is left out.
    fn place(&self, field: &str) -> Place;

    /// A field that is true or false; `None` if it is left out.
    fn flag(&self, field: &str) -> Result<Option<bool>, Diagnostic>;

    /// A key of the cell by a field, or by its default if it is left out.
    fn key(&self, name: &'static str, field: &'static str, value: Json) -> Key {
        Key {
            name,
            field,
            value: Node::of_json(&value, self.place(field)),
        }
    }

    fn flag_key(&self, name: &'static str, field: &'static str) -> Result<Option<Key>, Diagnostic> {
        let flag = self.flag(field)?;
        Ok(flag.map(|flag| self.key(name, field, json!(flag))))
    }

    fn mistake(&self, field: &str, mistake: Mistake) -> Diagnostic {
        Diagnostic::of(&format!("{}: {field}", Self::KIND), &mistake).at(self.place(field))
    }
}

/// A file's text, and where its fields stand.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) tree: Result<Node, Diagnostic>,
    pub(super) source: u32,
}

impl Text {
    pub(super) fn read(path: PathBuf, key: &str, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let text = read_text(&path, LARGEST);
        let text = text.map_err(|error| Diagnostic::new(format!("{key}: {}", error.message())))?;
        let name = path.display().to_string();
        let source = sources.add(name.as_str(), text.as_str());
        Ok(Self {
            tree: yaml::parse(&text, source, 0, Budget::SPEC),
            name,
            text,
            source,
        })
    }

    /// The character at which the reader of JSON stopped.
    pub(super) fn place_of(&self, error: &serde_json::Error) -> Place {
        let lines = self.text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let start = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let start = start.min(self.text.len().saturating_sub(1)) as u32;
        Place {
            source: self.source,
            start,
            end: start + 1,
        }
    }

    /// The place of a field with its value; of the file's beginning for one that is not there.
    pub(super) fn place(&self, field: &str) -> Place {
        let map = self.tree.as_ref().ok().and_then(Node::as_map);
        match map.and_then(|map| map.get(field)) {
            Some(entry) => entry.place(),
            None => Place {
                source: self.source,
                start: 0,
                end: 1,
            },
        }
    }
}

/// A cell of these keys alone, as far as they are written; `None` if one of them is a mistake of its own.
pub(super) fn part(cell: &Node, keys: &[&str]) -> Option<Cell> {
    let mut tree = Node::empty_map(cell.place);
    for key in keys {
        if let Some(node) = cell.get(&[key]) {
            tree.set(&[(*key).to_owned()], node.place, node.clone());
        }
    }
    typed::read(&tree).ok()
}
