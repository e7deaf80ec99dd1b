//! The JSON Schema of specs, for editors: keys are completed, documented and checked while they are typed.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::cell::Cell;
use super::claim::Claim;
use super::keys::keys;
use super::published::Published;
use super::study::{Limits, RecordSpec, TEMPLATES};

/// Draft 7, which editors' YAML plugins know best.
static DEFINITIONS: LazyLock<Value> = LazyLock::new(|| {
    let mut generator = SchemaSettings::draft07().into_generator();
    generator.subschema_for::<Cell>();
    generator.subschema_for::<Limits>();
    generator.subschema_for::<Published>();
    generator.subschema_for::<Claim>();
    generator.subschema_for::<RecordSpec>();
    Value::Object(generator.take_definitions(true))
});

/// The types that a spec is made of, by name.
pub(crate) fn definitions() -> &'static Value {
    &DEFINITIONS
}

/// The JSON Schema of a spec's file.
pub fn schema() -> Value {
    let mut definitions = definitions().clone();
    let mut cell = by_key(Value::clone);
    cell["description"] = "Values that pick the cell it belongs to.".into();
    definitions["Published"]["properties"]["cell"] = cell.clone();
    cell["description"] = "Values that pick the cells it is about.".into();
    definitions["Claim"]["properties"]["cells"] = cell;
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "expctl spec",
        "description": "A study: one configuration, and how it is varied.",
        "type": "object",
        "required": ["name"],
        "additionalProperties": false,
        "properties": {
            "name": {
                "description": "The study's name, and that of its folder under results/.",
                "type": "string",
                "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
                "maxLength": 100
            },
            "description": { "description": "What the study is to find out.", "type": ["string", "null"] },
            "defaults": {
                "description": "What all cells have in common; every key has a default.",
                "anyOf": [{ "$ref": "#/definitions/Cell" }, { "type": "null" }]
            },
            "sweep": sweep(),
            "repeats": {
                "description": "Seeds for each cell: seed, seed + 1 and so on, each a cell of its own.",
                "type": ["integer", "null"],
                "minimum": 1,
                "default": 1
            },
            "limits": { "description": "What can end a cell.", "anyOf": [{ "$ref": "#/definitions/Limits" }, { "type": "null" }] },
            "record": { "description": "What is kept of a run beside its figures.", "anyOf": [{ "$ref": "#/definitions/RecordSpec" }, { "type": "null" }] },
            "report": report(),
            "published": {
                "description": "Figures of others, shown beside what is measured; no part of a cell.",
                "type": ["array", "null"],
                "items": { "$ref": "#/definitions/Published" }
            },
            "claims": {
                "description": "Sentences that the study puts to the test; no part of a cell.",
                "type": ["array", "null"],
                "items": { "$ref": "#/definitions/Claim" }
            }
        },
        "definitions": definitions
    })
}

fn sweep() -> Value {
    let axes = |description: &str| {
        let mut schema = by_key(|schema| json!({ "type": "array", "items": schema, "minItems": 1 }));
        schema["description"] = description.into();
        schema["minProperties"] = 1.into();
        schema
    };
    let expression = json!({ "type": "string", "minLength": 1 });
    json!({
        "description": "Which keys vary.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "grid": axes("Every combination of these axes."),
            "zip": axes("Axes that step together; all of the same length."),
            "exclude": {
                "description": "Combinations for which this minijinja expression holds (or one of these) are left out.",
                "anyOf": [expression, { "type": "array", "items": expression }]
            },
            "include": {
                "description": "Further cells: the defaults with these keys, neither excluded nor multiplied.",
                "type": "array",
                "items": by_key(Value::clone)
            }
        }
    })
}

fn report() -> Value {
    let mut baseline = by_key(Value::clone);
    baseline["description"] = "Values that name the cell which the others are compared with.".into();
    json!({
        "description": "How the results are shown.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "template": {
                "description": "A template that comes with expctl, or the path of one, relative to the spec.",
                "anyOf": [{ "enum": TEMPLATES }, { "type": "string", "pattern": "[/\\\\.]" }, { "type": "null" }],
                "default": TEMPLATES[0]
            },
            "output": {
                "description": "The Markdown file, relative to the current directory.",
                "type": ["string", "null"]
            },
            "baseline": baseline
        }
    })
}

/// An object with any keys of a cell, dotted ones too, each of what `wrap` makes of the key's own schema.
fn by_key(wrap: impl Fn(&Value) -> Value) -> Value {
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
    json!({
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_every_key_dotted_ones_too() {
        let schema = schema();
        let grid = &schema["properties"]["sweep"]["properties"]["grid"];
        let properties = &grid["properties"];
        for key in [
            "rank",
            "dtype",
            "data.synthetic.lengths",
            "gradient_checkpointing.every",
            "allocator.env",
        ] {
            assert_eq!(properties[key]["type"], "array", "{key}");
            assert!(properties[key]["description"].is_string(), "{key}");
        }
        assert!(grid["patternProperties"][r"^allocator\.env\..+$"].is_object());
    }

    #[test]
    fn every_reference_has_its_definition() {
        fn check(value: &Value, definitions: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(name) = map.get("$ref").and_then(Value::as_str) {
                        let name = name.strip_prefix("#/definitions/").unwrap();
                        assert!(definitions[name].is_object(), "{name}");
                    }
                    map.values().for_each(|value| check(value, definitions));
                }
                Value::Array(list) => list.iter().for_each(|value| check(value, definitions)),
                _ => {}
            }
        }
        let schema = schema();
        check(&schema, &schema["definitions"]);
    }

    #[test]
    fn every_key_is_documented() {
        for key in keys() {
            assert!(!key.doc.is_empty() || key.path.ends_with('*'), "{}", key.path);
        }
    }
}
