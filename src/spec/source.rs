//! Where a value was written: texts that values come from, and places in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::error::{Diagnostic, SpecError};
use super::tree::{Node, Value};

/// A stretch of bytes in one of the [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub source: u32,
    pub start: u32,
    pub end: u32,
}

/// A text that values come from: the spec's file, an environment variable or a `--set`.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The file's path as it was given, `environment` or `--set`.
    pub name: String,
    pub text: String,
}

/// All texts that one load reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(Vec<Source>);

impl Sources {
    /// Adds a text and returns its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        self.0.push(Source {
            name: name.into(),
            text: text.into(),
        });
        (self.0.len() - 1) as u32
    }

    pub fn get(&self, source: u32) -> &Source {
        &self.0[source as usize]
    }

    /// The name, line and column (both from 1) of a place.
    pub fn locate(&self, place: Place) -> (&str, usize, usize) {
        let source = self.get(place.source);
        let before = &source.text[..floor_boundary(&source.text, place.start as usize)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (&source.name, line, before[line_start..].chars().count() + 1)
    }
}

/// Where an entry of a spec and its keys were written, for errors that are found when it is used. It is no part of what the
/// entry says: any two are equal.
#[derive(Clone, Default)]
pub struct Origin {
    sources: Arc<Sources>,
    /// By dotted key; that of the entry itself is empty.
    places: BTreeMap<String, Place>,
}

impl Origin {
    /// Of `node` and all that is in it.
    pub(crate) fn of(node: &Node, sources: &Arc<Sources>) -> Self {
        let mut places = BTreeMap::new();
        collect(node, String::new(), &mut places);
        Self {
            sources: Arc::clone(sources),
            places,
        }
    }

    /// An error that points at a key of the entry, or at the entry where it has no such key.
    pub(crate) fn error(&self, key: &str, message: impl Into<String>, help: Option<String>) -> SpecError {
        self.point(self.places.get(key), message.into(), help)
    }

    /// An error in the text of a key: at these bytes of it where it was written as it reads, else at the whole.
    pub(crate) fn error_in(
        &self,
        key: &str,
        text: &str,
        range: Option<Range<usize>>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> SpecError {
        let whole = self.places.get(key);
        let exact = whole.zip(range).and_then(|(place, range)| {
            let written = &self.sources.get(place.source).text;
            let written = written.get(place.start as usize..place.end as usize)?;
            // The text stands there behind its opening quote, if it has one.
            let quote = written.find(text).filter(|&at| at <= 1)?;
            let start = place.start as usize + quote;
            Some(Place {
                start: (start + range.start) as u32,
                end: (start + range.end) as u32,
                ..*place
            })
        });
        self.point(exact.as_ref().or(whole), message.into(), help)
    }

    fn point(&self, place: Option<&Place>, message: String, help: Option<String>) -> SpecError {
        let diagnostic = Diagnostic::new(message).help_if(help);
        match place.or_else(|| self.places.get("")) {
            Some(place) => SpecError::new(diagnostic.at(*place), &self.sources),
            None => SpecError::new(diagnostic, &self.sources),
        }
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// File, line and column.
impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.places.get("") {
            Some(place) => {
                let (name, line, column) = self.sources.locate(*place);
                write!(f, "{name}:{line}:{column}")
            }
            None => f.write_str("nowhere"),
        }
    }
}

fn collect(node: &Node, path: String, places: &mut BTreeMap<String, Place>) {
    let below = |segment: &str| match path.as_str() {
        "" => segment.to_owned(),
        path => format!("{path}.{segment}"),
    };
    match &node.value {
        Value::Map(map) => map
            .iter()
            .for_each(|(key, entry)| collect(&entry.value, below(key), places)),
        Value::List(list) => {
            let items = list.iter().enumerate();
            items.for_each(|(index, node)| collect(node, below(&index.to_string()), places));
        }
        Value::Scalar(_) => {}
    }
    places.insert(path, node.place);
}

/// The last char boundary of `text` at or before `index`.
pub(crate) fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}
