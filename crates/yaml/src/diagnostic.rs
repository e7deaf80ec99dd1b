//! Mistakes of a spec with their places, collected while it is read.

use std::collections::{BTreeSet, HashSet};

use base::text::Mistake;

use super::place::Place;
use super::tree::Node;

/// A mistake, and where it was made.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// The first label is the place of the mistake, the others explain it.
    pub labels: Vec<Label>,
    /// What would be right.
    pub help: Vec<String>,
}

/// A place, and a word about it.
#[derive(Debug, Clone)]
pub struct Label {
    /// The place.
    pub place: Place,
    /// The word; empty for the place alone.
    pub text: String,
}

impl Diagnostic {
    /// A mistake without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            labels: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A mistake in the value of `key`; an empty key is left unsaid.
    pub fn of(key: &str, mistake: &Mistake) -> Self {
        let message = match key {
            "" => mistake.message.clone(),
            key => format!("{key}: {}", mistake.message),
        };
        Self::new(message).help_if(mistake.help.as_ref())
    }

    /// A mistake in the value of `key` in `node`, which is called `section`. Either name may be empty.
    pub fn in_section(section: &str, key: &str, mistake: &Mistake, node: &Node) -> Self {
        let path: Vec<&str> = key.split('.').filter(|segment| !segment.is_empty()).collect();
        let names: Vec<&str> = [section, key].into_iter().filter(|name| !name.is_empty()).collect();
        Self::of(&names.join("."), mistake).at(node.get(&path).unwrap_or(node).place)
    }

    /// Points at `place`; the first call names the place of the mistake.
    pub fn at(self, place: Place) -> Self {
        self.label(place, "")
    }

    /// Adds a place and a word about it.
    pub fn label(mut self, place: Place, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            place,
            text: text.into(),
        });
        self
    }

    /// Adds what would be right.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Adds what would be right, if that is known.
    pub fn help_if(self, text: Option<impl Into<String>>) -> Self {
        match text {
            Some(text) => self.help(text),
            None => self,
        }
    }

    /// The place of the mistake.
    pub fn place(&self) -> Option<Place> {
        self.labels.first().map(|label| label.place)
    }
}

/// The mistakes that were found so far. Reading goes on after each, so that one run shows them all.
#[derive(Debug, Default)]
pub struct Mistakes {
    found: Vec<Diagnostic>,
    known: HashSet<(String, Option<Place>)>,
    open: BTreeSet<String>,
}

impl Mistakes {
    /// Adds a mistake, unless it was found before.
    pub fn add(&mut self, found: Diagnostic) {
        if self.known.insert((found.message.clone(), found.place())) {
            self.found.push(found);
        }
    }

    /// The value of a result; its mistake is added.
    pub fn take<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        result.map_err(|found| self.add(found)).ok()
    }

    /// Notes that a mistake leaves open which value a cell's key has. What a cell comes to by it is then no mistake of
    /// its own.
    pub fn leave_open(&mut self, key: Option<&str>) {
        let first = key.and_then(|key| key.split('.').next());
        self.open.extend(first.map(str::to_owned));
    }

    /// True if the value of one of these keys of a cell is open.
    pub fn leaves_open<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> bool {
        let first = |key: &'k str| key.split(['.', '[']).next().unwrap_or(key);
        keys.into_iter().any(|key| self.open.contains(first(key)))
    }

    /// True if no mistake was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds those of another collection.
    pub fn append(&mut self, other: Self) {
        other.found.into_iter().for_each(|found| self.add(found));
        self.open.extend(other.open);
    }

    /// The mistakes by place; those without a place come first.
    pub fn in_order(mut self) -> Vec<Diagnostic> {
        self.found
            .sort_by_key(|found| found.place().map(|place| (place.source, place.start)));
        self.found
    }
}
