//! Reads typed values out of a [`Node`]: each scalar is what its key asks for, and an error knows its place and key.

use std::fmt;
use std::iter::Enumerate;
use std::rc::Rc;
use std::slice;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

mod error;

pub use error::{Error, Unknown};

use base::text::{Mistake, either};

use super::scalar::{self, Core};
use super::tree::{Entry, Node, Scalar, Value};

/// Reads a `T` from `node`.
pub fn read<T: DeserializeOwned>(node: &Node) -> Result<T, Error> {
    T::deserialize(Reader { node }).map_err(|mut error: Error| {
        error.place.get_or_insert(node.place);
        error
    })
}

/// Mistakes beyond this number in one section are not looked for.
const MOST: usize = 200;

/// Reads a `T` from `node` and finds all mistakes in it: each is noted and its value taken out of `node`, until the
/// rest can be read. `None` if too little is left for a `T`.
pub fn read_all<T: DeserializeOwned>(node: &mut Node) -> (Option<T>, Vec<Error>) {
    let mut errors: Vec<Error> = Vec::new();
    loop {
        let error = match read(node) {
            Ok(value) => return (Some(value), errors),
            Err(error) => error,
        };
        let path: Vec<&str> = error.path.iter().map(String::as_str).collect();
        // A value that lacks what was just taken out of it is not a mistake of its own.
        let follows = node.get(&path).is_some_and(Node::has_hole);
        let path = error.path.clone();
        if !follows {
            errors.push(error);
        }
        if path.is_empty() || errors.len() >= MOST || !node.take_out(&path) {
            return (None, errors);
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'n> {
    node: &'n Node,
}

impl<'n> Reader<'n> {
    /// The scalar as `parse` understands it, or what `parse` asks for.
    fn scalar<T>(self, expected: &str, parse: impl FnOnce(&'n Scalar) -> Result<T, Mistake>) -> Result<T, Error> {
        let Value::Scalar(scalar) = &self.node.value else {
            return Err(self.unexpected(&expected));
        };
        parse(scalar).map_err(Error::from)
    }

    fn unexpected(self, expected: &dyn fmt::Display) -> Error {
        Error::new(format!("expected {expected}, got {}", self.node.kind()))
    }

    fn unsigned<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.scalar("a whole number of 0 or more", scalar::unsigned)?)
    }

    fn signed<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(self.scalar("a whole number", scalar::signed)?)
    }

    fn float<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.scalar("a number", scalar::float)?)
    }

    /// The entries of a map; null, which is what a key without a value is, has none.
    fn map<V: Visitor<'n>>(self, expected: &str, visitor: V) -> Result<V::Value, Error> {
        let entries = match &self.node.value {
            Value::Map(map) => Some(map.iter()),
            Value::Scalar(scalar) if scalar.is_null() => None,
            _ => return Err(self.unexpected(&expected)),
        };
        visitor.visit_map(Entries { entries, current: None })
    }

    fn list<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::List(list) => visitor.visit_seq(Items {
                items: list.iter().enumerate(),
            }),
            _ => Err(self.unexpected(&"a list")),
        }
    }
}

macro_rules! as_numbers {
    ($($method:ident => $as:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$as(visitor)
        }
    )*};
}

impl<'n> Deserializer<'n> for Reader<'n> {
    type Error = Error;

    as_numbers! {
        deserialize_u8 => unsigned, deserialize_u16 => unsigned, deserialize_u32 => unsigned, deserialize_u64 => unsigned,
        deserialize_u128 => unsigned, deserialize_i8 => signed, deserialize_i16 => signed, deserialize_i32 => signed,
        deserialize_i64 => signed, deserialize_i128 => signed, deserialize_f32 => float, deserialize_f64 => float,
    }

    fn deserialize_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::List(_) => self.list(visitor),
            Value::Map(_) => self.map("a map", visitor),
            Value::Scalar(scalar) => match scalar::core(scalar) {
                Core::Null => visitor.visit_unit(),
                Core::Bool(value) => visitor.visit_bool(value),
                Core::Unsigned(value) => visitor.visit_u64(value),
                Core::Signed(value) => visitor.visit_i64(value),
                Core::Float(value) => visitor.visit_f64(value),
                Core::Text(text) => visitor.visit_borrowed_str(text),
            },
            Value::Hole => visitor.visit_unit(),
        }
    }

    fn deserialize_bool<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.scalar("true or false", scalar::boolean)?)
    }

    fn deserialize_str<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.scalar("a string", scalar::string)?)
    }

    fn deserialize_string<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'n>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_map<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        self.map("a map", visitor)
    }

    fn deserialize_struct<V: Visitor<'n>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.map("a map", visitor)
    }

    /// Enums are words; those that can be a list or a map as well are read by hand through `deserialize_any`.
    fn deserialize_enum<V: Visitor<'n>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::Scalar(scalar) if !scalar.is_null() => visitor.visit_enum((&*scalar.text).into_deserializer()),
            _ => Err(self.unexpected(&either(words))),
        }
    }

    forward_to_deserialize_any! {
        <V: Visitor<'n>>
        char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct Entries<'n> {
    entries: Option<indexmap::map::Iter<'n, Rc<str>, Entry>>,
    current: Option<(&'n str, &'n Entry)>,
}

impl<'n> MapAccess<'n> for Entries<'n> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'n>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let entries = self.entries.as_mut();
        let next = entries.and_then(|entries| entries.find(|(_, entry)| !entry.value.is_hole()));
        let Some((key, entry)) = next else {
            return Ok(None);
        };
        self.current = Some((key, entry));
        let key_reader = BorrowedStrDeserializer::new(key);
        seed.deserialize(key_reader)
            .map(Some)
            .map_err(|error: Error| error.with_value(&entry.value).within(key, entry.key))
    }

    fn next_value_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let Some((key, entry)) = self.current.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let node = &entry.value;
        // An empty value has no characters to point at; its key has.
        let place = if node.place.is_empty() { entry.key } else { node.place };
        seed.deserialize(Reader { node })
            .map_err(|error| error.within(key, place))
    }
}

struct Items<'n> {
    items: Enumerate<slice::Iter<'n, Node>>,
}

impl<'n> SeqAccess<'n> for Items<'n> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, node)) = self.items.find(|(_, node)| !node.is_hole()) else {
            return Ok(None);
        };
        let within = |error: Error| error.within(&index.to_string(), node.place);
        seed.deserialize(Reader { node }).map(Some).map_err(within)
    }
}
