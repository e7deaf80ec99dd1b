//! Values in one line of YAML.

use serde_json::Value;

/// A value in one line of YAML, as people write it: `4`, `all-linear`, `{every: 2}`, `null`.
pub fn to_flow_yaml(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(to_flow_yaml).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key}: {}", to_flow_yaml(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
