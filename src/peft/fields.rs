//! The fields of `adapter_config.json` that are not read.

use serde_json::{Map, Value};

/// Fields of PEFT's configuration that say nothing of what an adapter computes.
const REMARKS: [&str; 7] = [
    "auto_mapping",
    "ensure_weight_tying",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
];

/// A field of `adapter_config.json` that asks for something that is not done here.
pub(super) fn unknown_field(fields: &Map<String, Value>, known: &Map<String, Value>) -> Option<String> {
    let is_neutral = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let is_known = |name: &str| known.contains_key(name) || REMARKS.contains(&name);
    let mut others = fields.iter().filter(|(name, _)| !is_known(name));
    let found = others.find(|(_, value)| !is_neutral(value));
    found.map(|(name, value)| format!("`{name}: {value}` is not supported"))
}
