//! The fields of `adapter_config.json`, each read by itself, so that a mistake is one of a field.

use base::text::{either, suggestion};
use options::methods::interface::Field;
use options::{Adapter, AdapterOptions, Invalid};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::config::{Common, Config, is_neutral};
use super::field_error::FieldError;

/// The field that names the method.
const TYPE: &str = "peft_type";

/// Fields that say what the adapter is of.
const COMMON: [&str; 3] = ["task_type", "base_model_name_or_path", "inference_mode"];

/// Fields of any method that say which modules are meant.
const OF_MODULES: [&str; 3] = ["target_modules", "layers_to_transform", "modules_to_save"];

/// Fields of PEFT's configuration that say nothing of what an adapter computes.
const REMARKS: [&str; 6] = [
    "auto_mapping",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
];

/// Reads a configuration from its fields.
pub(super) fn read(fields: &Map<String, Value>) -> Result<Config, FieldError> {
    let adapter = adapter(fields)?;
    let facts = adapter.facts();
    let mut options = new(adapter)?;
    let mut other_start = None;
    for field in facts.fields.iter() {
        let (name, value) = (field.name(), fields.get(field.name()));
        let Some(key) = field.key() else {
            let other = value.filter(|value| !value.is_null() && !field.permits(value));
            match (other, field) {
                (Some(value), Field::Fixed { is_of_start: true, .. }) => {
                    let _ = other_start.get_or_insert((name.to_owned(), in_message(value)));
                }
                (Some(value), _) => return Err(FieldError::unsupported(name, in_message(value))),
                (None, _) => {}
            }
            continue;
        };
        let Some(value) = value.cloned().or_else(|| key.default_value()) else {
            continue;
        };
        options.set(key.key, key.read(&value)).map_err(|error| {
            let error = key.in_peft_words(&error.to_string());
            FieldError::new(name, format!("`{name}: {value}`: {error}"))
        })?;
        if key.is_other_start(&value) {
            let _ = other_start.get_or_insert((name.to_owned(), in_message(&value)));
        }
    }
    check_values(&mut options, fields)?;
    check_known(fields, adapter)?;
    let common = COMMON.map(|name| (name.to_owned(), fields.get(name).cloned()));
    let common = common.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let common: Map<String, Value> = common.collect();
    Ok(Config {
        common: common_of(&common)?,
        adapter: options,
        target_modules: value(fields, OF_MODULES[0])?,
        layers_to_transform: value(fields, OF_MODULES[1])?,
        modules_to_save: value(fields, OF_MODULES[2])?,
        other_start,
    })
}

/// The method: of those with the type, the one whose mark is set, else the one without a mark.
fn adapter(fields: &Map<String, Value>) -> Result<Adapter, FieldError> {
    let kind = fields.get(TYPE);
    let kind = kind.ok_or_else(|| FieldError::new(TYPE, format!("`{TYPE}` is missing")))?;
    let of_type = |adapter: &Adapter| *kind == adapter.facts().peft_type;
    let is_marked = |adapter: &Adapter| {
        let mark = adapter.facts().mark;
        mark.is_none_or(|mark| fields.get(mark) == Some(&Value::Bool(true)))
    };
    // Those with a mark stand behind the one without.
    let mut methods = Adapter::ALL.into_iter().rev().filter(of_type);
    if let Some(adapter) = methods.find(is_marked) {
        return Ok(adapter);
    }
    let mut types: Vec<&str> = Adapter::ALL.iter().map(|adapter| adapter.facts().peft_type).collect();
    types.dedup();
    let mut error = FieldError::unsupported(TYPE, kind);
    let near = kind.as_str().and_then(|kind| suggestion(kind, types.iter().copied()));
    let help = near.unwrap_or_else(|| format!("the types are {}", either(&types).replace(" or ", " and ")));
    error.mistake = error.mistake.help(help);
    Err(error)
}

/// A method with its defaults.
fn new(adapter: Adapter) -> Result<AdapterOptions, FieldError> {
    let method = adapter.with_options(Value::Object(Map::new()));
    let method = method.map_err(|error| FieldError::new(TYPE, error.to_string()))?;
    Ok(AdapterOptions::new(method))
}

/// A value in a message: words without quotes.
fn in_message(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks the ranges of the method's values. Those that have no effect are left out.
fn check_values(options: &mut AdapterOptions, fields: &Map<String, Value>) -> Result<(), FieldError> {
    let mut found: Vec<Invalid> = Vec::new();
    options.method.options().check_values(&mut found);
    for invalid in found {
        let own = options.adapter().facts().fields.iter().filter_map(Field::key);
        let name = own.into_iter().find(|field| *field.key == *invalid.key);
        let name = name.map_or(TYPE, |field| field.name);
        let cleared = invalid.is_idle.then(|| options.set(&invalid.key, Value::Null));
        if !matches!(cleared, Some(Ok(()))) {
            let value = fields
                .get(name)
                .map_or_else(|| "left out".into(), |value| format!("{name}: {value}"));
            let value = match fields.contains_key(name) {
                true => format!("`{value}`"),
                false => format!("`{name}` is {value}"),
            };
            return Err(FieldError::new(name, format!("{value}: {}", invalid.mistake.message)));
        }
    }
    Ok(())
}

/// Checks that each field is known, or has PEFT's neutral value.
fn check_known(fields: &Map<String, Value>, adapter: Adapter) -> Result<(), FieldError> {
    let own = adapter.facts().fields.iter().map(Field::name);
    let marks = adapter.facts().mark.into_iter();
    let known: Vec<&str> = [TYPE]
        .into_iter()
        .chain(COMMON)
        .chain(OF_MODULES)
        .chain(own)
        .chain(marks)
        .collect();
    let is_known = |name: &str| known.contains(&name) || REMARKS.contains(&name);
    let mut others = fields.iter().filter(|(name, _)| !is_known(name));
    let Some((name, value)) = others.find(|(_, value)| !is_neutral(value)) else {
        return Ok(());
    };
    let mut error = FieldError::unsupported(name, value);
    error.mistake = error.mistake.help_if(suggestion(name, known));
    Err(error)
}

fn common_of(fields: &Map<String, Value>) -> Result<Common, FieldError> {
    for (name, value) in fields {
        let one = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        serde_json::from_value::<Common>(one)
            .map_err(|error| FieldError::new(name, format!("`{name}: {value}`: {error}")))?;
    }
    serde_json::from_value(Value::Object(fields.clone())).map_err(|error| FieldError::new(TYPE, error.to_string()))
}

/// The value of a field that may be left out.
fn value<T: DeserializeOwned>(fields: &Map<String, Value>, name: &str) -> Result<Option<T>, FieldError> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    serde_json::from_value(value.clone()).map_err(|error| FieldError::new(name, format!("`{name}: {value}`: {error}")))
}
