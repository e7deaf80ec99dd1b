//! The fields of `adapter_config.json`, each read by itself, so that a mistake is one of a field.

use base::text::{either, suggestion};
use serde_json::{Map, Value};

use super::{config::Config, field_error::FieldError, method::TYPES};

/// The field that names the method.
const TYPE: &str = "peft_type";

/// Fields of PEFT's configuration that say nothing of what an adapter computes.
const REMARKS: [&str; 6] = [
    "auto_mapping",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
];

/// Fields that are not written where they have PEFT's defaults.
const OPTIONAL: [&str; 7] = [
    "alpha_pattern",
    "layers_to_transform",
    "modules_to_save",
    "rank_pattern",
    "target_modules",
    "use_dora",
    "use_rslora",
];

/// Reads a configuration from its fields.
pub(super) fn read(fields: &Map<String, Value>) -> Result<Config, FieldError> {
    let kind = fields.get(TYPE);
    let kind = kind.ok_or_else(|| FieldError::new(TYPE, format!("`{TYPE}` is missing")))?;
    if !TYPES.iter().any(|name| kind == name) {
        let mut error = FieldError::unsupported(TYPE, kind);
        let near = kind.as_str().and_then(|kind| suggestion(kind, TYPES));
        let help = near.unwrap_or_else(|| format!("the types are {}", either(&TYPES).replace(" or ", " and ")));
        error.mistake = error.mistake.help(help);
        return Err(error);
    }
    for (name, value) in fields {
        let one = [(TYPE, kind), (name.as_str(), value)].map(|(name, value)| (name.to_owned(), value.clone()));
        let one = Value::Object(one.into_iter().collect());
        serde_json::from_value::<Config>(one)
            .map_err(|error| FieldError::new(name, format!("`{name}: {value}`: {error}")))?;
    }
    let config: Config = serde_json::from_value(Value::Object(fields.clone()))
        .map_err(|error| FieldError::new(TYPE, error.to_string()))?;
    match serde_json::to_value(&config) {
        Ok(Value::Object(known)) => check_known(fields, &known).map(|()| config),
        // A configuration is a map with text keys, so it can always be written.
        _ => Ok(config),
    }
}

/// Checks that each field is known, or has PEFT's neutral value.
fn check_known(fields: &Map<String, Value>, known: &Map<String, Value>) -> Result<(), FieldError> {
    let is_neutral = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let is_known = |name: &str| known.contains_key(name) || REMARKS.contains(&name);
    let mut others = fields.iter().filter(|(name, _)| !is_known(name));
    let Some((name, value)) = others.find(|(_, value)| !is_neutral(value)) else {
        return Ok(());
    };
    let mut error = FieldError::unsupported(name, value);
    let names = known.keys().map(String::as_str).chain(OPTIONAL);
    error.mistake = error.mistake.help_if(suggestion(name, names));
    Err(error)
}
