//! A tree of values that remembers where everything was written, and does not guess types.

use std::rc::Rc;

use base::text::quoted;
use indexmap::IndexMap;
use serde_json::Value as Json;

use super::place::Place;

/// A value and where it was written.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub place: Place,
}

/// Collections are shared, so that a cell's tree costs little more than what differs from its neighbour's.
#[derive(Debug, Clone)]
pub enum Value {
    /// A text, not interpreted.
    Scalar(Scalar),
    /// A list.
    List(Rc<Vec<Node>>),
    /// A map, in the order of its text.
    Map(Rc<Map>),
    /// Nothing: a value that is a mistake was taken out. Typing skips it.
    Hole,
}

/// A scalar's text, not interpreted.
#[derive(Debug, Clone)]
pub struct Scalar {
    /// The text.
    pub text: Rc<str>,
    /// Written without quotes, so it may be a number, a truth value or null.
    pub plain: bool,
}

/// The entries of a map, in the order of their text.
pub type Map = IndexMap<Rc<str>, Entry>;

#[derive(Debug, Clone)]
/// A key and its value.
pub struct Entry {
    /// Where the key was written.
    pub key: Place,
    /// The value.
    pub value: Node,
}

impl Entry {
    /// The place of the key with its value.
    pub fn place(&self) -> Place {
        Place {
            end: self.value.place.end.max(self.key.end),
            ..self.key
        }
    }
}

impl Node {
    /// A map without keys.
    pub fn empty_map(place: Place) -> Self {
        Self {
            value: Value::Map(Rc::default()),
            place,
        }
    }

    /// A value of JSON, all of it at one place.
    pub fn of_json(value: &Json, place: Place) -> Self {
        let scalar = |text: &str, plain| {
            Value::Scalar(Scalar {
                text: text.into(),
                plain,
            })
        };
        let value = match value {
            Json::String(text) => scalar(text, false),
            Json::Array(list) => Value::List(Rc::new(list.iter().map(|value| Self::of_json(value, place)).collect())),
            Json::Object(map) => {
                let entry = |(key, value): (&String, &Json)| {
                    let value = Self::of_json(value, place);
                    (key.as_str().into(), Entry { key: place, value })
                };
                Value::Map(Rc::new(map.iter().map(entry).collect()))
            }
            plain => scalar(&plain.to_string(), true),
        };
        Self { value, place }
    }

    /// The entries, if it is a map.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// True for null, which is what a key without a value is.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }

    /// A scalar's text.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// Its kind, for messages.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) => scalar.describe(),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
            Value::Hole => "nothing".into(),
        }
    }

    /// True if a mistake was taken out here.
    pub fn is_hole(&self) -> bool {
        matches!(self.value, Value::Hole)
    }

    /// True if one of the entries or items is a hole.
    pub fn has_hole(&self) -> bool {
        match &self.value {
            Value::Map(map) => map.values().any(|entry| entry.value.is_hole()),
            Value::List(list) => list.iter().any(Self::is_hole),
            Value::Scalar(_) | Value::Hole => false,
        }
    }

    /// Puts a hole in the place of the value at `path`; false if there is none.
    pub fn take_out(&mut self, path: &[String]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            self.value = Value::Hole;
            return true;
        };
        let below = match &mut self.value {
            Value::Map(map) => Rc::make_mut(map).get_mut(first.as_str()).map(|entry| &mut entry.value),
            Value::List(list) => first
                .parse::<usize>()
                .ok()
                .and_then(|index| Rc::make_mut(list).get_mut(index)),
            Value::Scalar(_) | Value::Hole => None,
        };
        below.is_some_and(|below| below.take_out(rest))
    }

    /// Takes the entry of `key` out of a map.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        match &mut self.value {
            Value::Map(map) => Rc::make_mut(map).shift_remove(key).map(|entry| entry.value),
            _ => None,
        }
    }

    /// Takes the entry at `path` out of the maps around it.
    pub fn remove_at(&mut self, path: &[&str]) {
        match (path, &mut self.value) {
            ([key], _) => drop(self.remove(key)),
            ([first, rest @ ..], Value::Map(map)) => {
                if let Some(entry) = Rc::make_mut(map).get_mut(*first) {
                    entry.value.remove_at(rest);
                }
            }
            _ => {}
        }
    }

    /// The value in one line of YAML.
    pub fn to_flow_yaml(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) if scalar.plain && scalar.text.is_empty() => "null".into(),
            Value::Scalar(scalar) if scalar.plain => scalar.text.to_string(),
            Value::Scalar(scalar) => format!("\"{}\"", scalar.text.escape_default()),
            Value::List(list) => format!(
                "[{}]",
                list.iter().map(Self::to_flow_yaml).collect::<Vec<_>>().join(", ")
            ),
            Value::Map(map) => {
                let entries = map
                    .iter()
                    .map(|(key, entry)| format!("{key}: {}", entry.value.to_flow_yaml()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Value::Hole => String::new(),
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
            Value::Scalar(_) | Value::Hole => return None,
        };
        next.get(rest)
    }

    /// Sets the value at `path`; what is in its way and not a map becomes one.
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
            Some(entry) if rest.is_empty() => *entry = Entry { key, value },
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
    /// True for null, which is what a key without a value is.
    pub fn is_null(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }

    /// The scalar in words, for messages.
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
