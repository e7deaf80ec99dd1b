//! The keys that a spec knows, taken from the types' own schema, so that they cannot drift apart.

use std::sync::LazyLock;

use serde_json::Value;

use super::cell::Cell;
use super::schema;
use crate::text::{did_you_mean, nearest};

/// A key of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Dotted, such as `data.synthetic.lengths`; a map with free names ends in `*`, such as `env.*`.
    pub path: String,
    /// What it does.
    pub doc: String,
    /// Its value where the spec does not give one; null for most keys inside a map.
    pub default: Value,
    /// What its value may be.
    pub(crate) schema: Value,
}

/// Every key of a cell, in the order in which the documentation has them.
pub fn keys() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let mut keys = Vec::new();
        collect(&schema::definitions()["Cell"], "", &mut keys);
        for key in &mut keys {
            key.default = Cell::default().value(&key.path);
        }
        keys
    });
    &KEYS
}

/// The names without a dot.
pub(crate) fn top_level() -> impl Iterator<Item = &'static str> {
    keys()
        .iter()
        .map(|key| key.path.as_str())
        .filter(|path| !path.contains('.'))
}

fn collect(schema: &Value, prefix: &str, keys: &mut Vec<Key>) {
    let schema = resolve(schema);
    for choice in ["oneOf", "anyOf", "allOf"] {
        for alternative in schema[choice].as_array().into_iter().flatten() {
            collect(alternative, prefix, keys);
        }
    }
    if schema["additionalProperties"].is_object() {
        add(format!("{prefix}.*"), &schema["additionalProperties"], keys);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        add(path.clone(), property, keys);
        collect(property, &path, keys);
    }
}

fn add(path: String, schema: &Value, keys: &mut Vec<Key>) {
    let doc = schema["description"]
        .as_str()
        .or(resolve(schema)["description"].as_str());
    let doc = doc.unwrap_or_default().replace('\n', " ");
    keys.push(Key {
        path,
        doc,
        default: Value::Null,
        schema: schema.clone(),
    });
}

/// Follows a `$ref` into the definitions.
fn resolve(schema: &Value) -> &Value {
    let name = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix("#/definitions/"));
    name.map_or(schema, |name| &schema::definitions()[name])
}

/// Whether `path` names a key: one of [`keys`], or a name in a free map.
pub(crate) fn is_known(path: &[String]) -> bool {
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

/// Names that other programs have for our keys and words.
const ALIASES: [(&str, &str); 45] = [
    ("lr", "learning_rate"),
    ("r", "rank"),
    ("lora_r", "rank"),
    ("lora_rank", "rank"),
    ("alpha", "lora_alpha"),
    ("dropout", "lora_dropout"),
    ("epochs", "num_train_epochs"),
    ("num_epochs", "num_train_epochs"),
    ("steps", "max_steps"),
    ("per_device_train_batch_size", "batch_size"),
    ("micro_batch_size", "batch_size"),
    ("max_length", "max_seq_length"),
    ("seq_length", "max_seq_length"),
    ("seq_len", "max_seq_length"),
    ("model_name_or_path", "model"),
    ("optimizer", "optim"),
    ("precision", "dtype"),
    ("torch_dtype", "dtype"),
    ("scheduler", "lr_scheduler_type"),
    ("memory", "device_memory"),
    ("dataset", "data"),
    ("lengths", "synthetic"),
    ("samples", "synthetic"),
    ("bf16", "bfloat16"),
    ("fp16", "float16"),
    ("bf16", "autocast"),
    ("fp16", "autocast"),
    ("true", "bfloat16"),
    ("false", "none"),
    ("half", "float16"),
    ("fp32", "float32"),
    ("nf4", "int4"),
    ("4bit", "int4"),
    ("8bit", "int8"),
    ("adamw_torch", "adamw"),
    ("adamw_hf", "adamw"),
    ("galore_adamw", "galore"),
    ("proj_interval", "update_proj_gap"),
    ("galore_rank", "optim_rank"),
    ("flash", "flash_attention_2"),
    ("torch_sdpa", "sdpa"),
    ("native", "auto"),
    ("sse2", "portable"),
    ("glibc", "system"),
    ("malloc", "system"),
];

/// Which of `expected` the user most likely meant by `word`.
pub(crate) fn near<'a>(word: &str, expected: &[&'a str]) -> Option<&'a str> {
    let find = |key: &str| expected.iter().copied().find(|word| *word == key);
    let mut aliases = ALIASES.iter().filter(|(alias, _)| *alias == word);
    moved(word)
        .and_then(find)
        .or_else(|| aliases.find_map(|(_, key)| find(key)))
        .or_else(|| nearest(word, expected.iter().copied()))
}

/// The place of a key that has moved: `torch.use_cache` for `use_cache`.
pub(crate) fn moved(name: &str) -> Option<&'static str> {
    named().find(|path| path.strip_prefix("torch.") == Some(name))
}

/// The question whether that was meant.
pub(crate) fn suggestion(word: &str, expected: &[&str]) -> Option<String> {
    near(word, expected).map(did_you_mean)
}

/// The dotted keys of a cell, without those that stand for any name.
pub(crate) fn named() -> impl Iterator<Item = &'static str> {
    keys()
        .iter()
        .map(|key| key.path.as_str())
        .filter(|path| !path.ends_with('*'))
}
