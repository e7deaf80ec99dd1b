//! Values as a tree that remembers where everything was written, and that has not guessed any types yet.

use std::ops::Range;
use std::rc::Rc;

use indexmap::IndexMap;

use super::source::Place;
use crate::text::quoted;

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub value: Value,
    pub place: Place,
}

/// Collections are shared, so that a cell's tree costs little more than what differs from its neighbour's.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Rc<Vec<Node>>),
    Map(Rc<Map>),
}

/// A scalar's text, not interpreted.
#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub text: Rc<str>,
    /// Written without quotes, so it may be a number, a truth value or null.
    pub plain: bool,
}

pub(crate) type Map = IndexMap<Rc<str>, Entry>;

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: Place,
    pub value: Node,
}

impl Node {
    pub fn empty_map(place: Place) -> Self {
        Self {
            value: Value::Map(Rc::default()),
            place,
        }
    }

    /// The place of some bytes of a scalar's text, where it stands in the source as it is, with or without quotes.
    pub fn place_of(&self, bytes: &Range<usize>) -> Option<Place> {
        let Value::Scalar(scalar) = &self.value else {
            return None;
        };
        let written = (self.place.end - self.place.start) as usize;
        let quote = usize::from(!scalar.plain);
        let start = self.place.start as usize + quote;
        (written == scalar.text.len() + 2 * quote).then(|| Place {
            start: (start + bytes.start) as u32,
            end: (start + bytes.end) as u32,
            ..self.place
        })
    }

    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }

    /// What it is, for messages.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) => scalar.describe(),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }

    /// The value below, one segment a map key or a list index.
    pub fn get(&self, path: &[&str]) -> Option<&Node> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        let next = match &self.value {
            Value::Map(map) => &map.get(*first)?.value,
            Value::List(list) => list.get(first.parse::<usize>().ok()?)?,
            Value::Scalar(_) => return None,
        };
        next.get(rest)
    }

    /// Sets the value at `path`; whatever is in its way and not a map becomes one.
    pub fn set(&mut self, path: &[String], key: Place, value: Node) {
        let Some((first, rest)) = path.split_first() else {
            *self = value;
            return;
        };
        if self.as_map().is_none() {
            *self = Node::empty_map(key);
        }
        let Value::Map(map) = &mut self.value else { return };
        let map = Rc::make_mut(map);
        match map.get_mut(first.as_str()) {
            Some(entry) => entry.value.set(rest, key, value),
            None => {
                let mut child = Node::empty_map(key);
                child.set(rest, key, value);
                map.insert(first.as_str().into(), Entry { key, value: child });
            }
        }
    }
}

impl Scalar {
    pub fn is_null(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }

    pub fn describe(&self) -> String {
        if self.is_null() {
            "null".into()
        } else if self.plain {
            quoted(&self.text)
        } else {
            format!("the string {}", quoted(&format!("\"{}\"", self.text)))
        }
    }
}
