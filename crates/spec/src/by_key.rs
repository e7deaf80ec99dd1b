//! Sections whose values are typed by a cell's keys: how they are declared, and their schema.

use cell::keys::keys;
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Map, Value, json};

/// A section that its struct only declares. Its values wait in the tree until they can be typed by their keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Untyped;

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| Self)
    }
}

/// The schema of axes: any keys of a cell, each with a list of values.
pub(super) fn axes(_: &mut SchemaGenerator) -> Schema {
    let mut schema = by_key(|schema| json!({ "type": "array", "items": schema, "minItems": 1 }));
    schema.insert("minProperties".into(), 1.into());
    schema
}

/// The schema of keys that may change: any keys of a cell, each with values to try, or with nothing.
pub(super) fn lists_or_nothing(_: &mut SchemaGenerator) -> Schema {
    by_key(
        |schema| json!({ "anyOf": [{ "type": "null" }, schema, { "type": "array", "items": schema, "minItems": 1 }] }),
    )
}

/// The schema of values that pick cells, or make one.
pub(super) fn values(_: &mut SchemaGenerator) -> Schema {
    by_key(Value::clone)
}

/// The schema of a list of [`values`].
pub(super) fn lists_of_values(generator: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "array", "items": values(generator) })
}

/// The schema of one expression, or of a list of them.
pub(super) fn expressions(_: &mut SchemaGenerator) -> Schema {
    let expression = json!({ "type": "string", "minLength": 1 });
    schemars::json_schema!({ "anyOf": [expression, { "type": "array", "items": expression }] })
}

/// An object with any keys of a cell, dotted ones too, each of what `wrap` makes of the key's own schema.
fn by_key(wrap: impl Fn(&Value) -> Value) -> Schema {
    let mut properties = Map::new();
    let mut patterns = Map::new();
    for key in keys() {
        let mut schema = wrap(&key.schema);
        if !key.doc.is_empty() {
            schema["description"] = key.doc.as_str().into();
        }
        match key.path.strip_suffix(".*") {
            Some(prefix) => patterns.insert(format!("^{}\\..+$", prefix.replace('.', "\\.")), schema),
            None => properties.insert(key.path.clone(), schema),
        };
    }
    schemars::json_schema!({
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": false
    })
}
