//! The keys of a cell, from the schema of its type.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::{Adapter, Cell, mark_stacks};

/// A key of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Dotted, such as `data.synthetic.lengths`; a map with free names ends in `*`, such as `env.*`.
    pub path: String,
    /// Its meaning.
    pub doc: String,
    /// Its value if the spec does not give one; null for most keys inside a map.
    pub default: Value,
    /// The JSON Schema of its value.
    pub schema: Value,
}

/// Every key of a cell, in the order in which the documentation has them.
pub fn keys() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let mut generator = SchemaSettings::draft07().into_generator();
        generator.subschema_for::<Cell>();
        let mut definitions = Value::Object(generator.take_definitions(true));
        mark_stacks(&mut definitions);
        let mut keys = collect(&definitions["Cell"], &definitions);
        for key in &mut keys {
            key.default = Cell::default().value(&key.path);
        }
        keys
    });
    &KEYS
}

/// The names without a dot.
pub fn top_level() -> impl Iterator<Item = &'static str> {
    keys()
        .iter()
        .map(|key| key.path.as_str())
        .filter(|path| !path.contains('.'))
}

/// The keys of the object that `schema` describes, those of the objects in it included.
pub fn collect(schema: &Value, definitions: &Value) -> Vec<Key> {
    let mut keys = Vec::new();
    Collector {
        definitions,
        keys: &mut keys,
    }
    .collect(schema, "");
    keys
}

struct Collector<'a> {
    definitions: &'a Value,
    keys: &'a mut Vec<Key>,
}

impl Collector<'_> {
    fn collect(&mut self, schema: &Value, prefix: &str) {
        let schema = self.resolve(schema).clone();
        for choice in ["oneOf", "anyOf", "allOf"] {
            for alternative in schema[choice].as_array().into_iter().flatten() {
                self.collect(alternative, prefix);
            }
        }
        if schema["additionalProperties"].is_object() {
            self.add(format!("{prefix}.*"), &schema["additionalProperties"]);
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}.{name}")
            };
            self.add(path.clone(), property);
            self.collect(property, &path);
        }
    }

    fn add(&mut self, path: String, schema: &Value) {
        let doc = schema["description"]
            .as_str()
            .or(self.resolve(schema)["description"].as_str());
        let doc = doc.unwrap_or_default().replace('\n', " ");
        self.keys.push(Key {
            path,
            doc,
            default: Value::Null,
            schema: schema.clone(),
        });
    }

    /// Follows a `$ref` into the definitions.
    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let name = schema["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix("#/definitions/"));
        name.map_or(schema, |name| &self.definitions[name])
    }
}

/// True if `path` is one of [`keys`], or a name in a free map.
pub fn is_known(path: &[String]) -> bool {
    keys().iter().any(|key| matches(&key.path, path))
}

fn matches(pattern: &str, path: &[String]) -> bool {
    let mut segments = pattern.split('.');
    path.iter().all(|name| {
        segments
            .next()
            .is_some_and(|segment| segment == name || segment == "*" && !name.is_empty())
    }) && segments.next().is_none()
}

/// A key that was one of PyTorch's stack alone, and where it is now.
const FROM_TORCH: (&str, &str) = ("torch.loss", "loss");
/// A key of PyTorch's stack that is another one of studies.
const OF_STUDIES: &str = "save_steps";

/// The place of a key that has moved, or that PEFT has at the top: `torch.use_cache` for `use_cache`, `lora.use_rslora`
/// for `use_rslora`.
pub fn moved(name: &str) -> Option<&'static str> {
    if name == FROM_TORCH.0 {
        return Some(FROM_TORCH.1);
    }
    // PEFT's `r` is a key of its own, though OFT has another one.
    if name == OF_STUDIES || crate::aliases().iter().any(|(alias, _)| *alias == name) {
        return None;
    }
    let is_map = |map: &str| map == "torch" || Adapter::named(map).is_some();
    let is_below = |path: &&str| {
        path.split_once('.')
            .is_some_and(|(map, own)| own == name && is_map(map))
    };
    named().find(is_below)
}

/// The dotted keys of a cell, without those that stand for any name.
pub fn named() -> impl Iterator<Item = &'static str> {
    keys()
        .iter()
        .map(|key| key.path.as_str())
        .filter(|path| !path.ends_with('*'))
}

/// True for the keys of budgets.
pub fn is_size(key: &str) -> bool {
    matches!(key, "device_memory" | "host_memory")
}
