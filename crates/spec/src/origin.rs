//! Where an entry of a spec was written, for mistakes that show when it is used.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use base::text::Mistake;
use yaml::diagnostic::Diagnostic;
use yaml::place::{Place, Sources};
use yaml::tree::{Node, Value};

use super::error::SpecError;

/// The places of an entry and of its keys. They say nothing of what the entry means: any two origins are equal.
#[derive(Clone, Default)]
pub struct Origin {
    /// The entry's name in messages, such as `published[0]`.
    name: String,
    sources: Arc<Sources>,
    /// The places by dotted key; the key of the entry itself is empty.
    places: BTreeMap<String, Place>,
}

impl Origin {
    /// The origin of `node`, which is called `name`, and all that is in it.
    pub fn of(name: &str, node: &Node, sources: &Arc<Sources>) -> Self {
        let mut places = BTreeMap::new();
        collect(node, String::new(), &mut places);
        Self {
            name: name.to_owned(),
            sources: Arc::clone(sources),
            places,
        }
    }

    /// True if the entry is a map that has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// The entry's name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The report of a mistake in the value of a key.
    pub(super) fn diagnostic(&self, key: &str, mistake: &Mistake) -> Diagnostic {
        let diagnostic = Diagnostic::of(&format!("{}.{key}", self.name), mistake);
        match self.places.get(key) {
            Some(place) => diagnostic.at(*place),
            None => diagnostic,
        }
    }

    /// An error that points at a key of the entry, or at the entry if it has no such key.
    pub fn error(&self, key: &str, message: impl Into<String>, help: Option<String>) -> SpecError {
        self.point(self.places.get(key).copied(), message.into(), help)
    }

    /// An error in the text of a key: at these bytes of it if it was written without escapes, else at the whole.
    fn error_in(
        &self,
        key: &str,
        text: &str,
        bytes: Option<Range<usize>>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> SpecError {
        let whole = self.places.get(key).copied();
        let part = whole.zip(bytes);
        let part = part.and_then(|(place, bytes)| self.sources.part(place, text, &bytes));
        self.point(part.or(whole), message.into(), help)
    }

    /// The error for a mistake in the text of a key.
    pub fn mistake_in(&self, key: &str, text: &str, mistake: Mistake) -> SpecError {
        let names = [self.name.as_str(), key].into_iter().filter(|name| !name.is_empty());
        let message = match names.collect::<Vec<_>>().join(".") {
            name if name.is_empty() => mistake.message,
            name => format!("{name}: {}", mistake.message),
        };
        self.error_in(key, text, mistake.range, message, mistake.help)
    }

    fn point(&self, place: Option<Place>, message: String, help: Option<String>) -> SpecError {
        let diagnostic = Diagnostic::new(message).help_if(help);
        let diagnostic = match place.or_else(|| self.places.get("").copied()) {
            Some(place) => diagnostic.at(place),
            None => diagnostic,
        };
        SpecError::new(diagnostic, &self.sources)
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

/// Adds the place of each value in `node`, by dotted key below `path`.
pub(super) fn collect(node: &Node, path: String, places: &mut BTreeMap<String, Place>) {
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
        Value::Scalar(_) | Value::Hole => {}
    }
    places.insert(path, node.place);
}
