//! Whether an adapter's configuration says what a cell says.

use std::collections::BTreeSet;
use std::path::Path;

use options::AdapterOptions;
use options::methods::interface::Field;
use serde_json::Value;

use super::config::Config;
use super::error::AdapterError;
use super::field_error::FieldError;
use super::folder::{CONFIG_FILE, config_file, read_config};
use super::targets::{Layers, Targets};

/// Checks that the adapter in a folder is one of these options. Its modules are those of its tensors.
///
/// # Errors
/// If its configuration cannot be read, or differs; names the field.
pub fn check_options(dir: &Path, options: &AdapterOptions) -> Result<(), AdapterError> {
    let path = dir.join(CONFIG_FILE);
    let config = read_config(&path)?;
    match config.options().and_then(|theirs| agree(&theirs, options)) {
        Ok(()) => Ok(()),
        Err(error) => Err(AdapterError::Field {
            path,
            error: Box::new(error),
        }),
    }
}

/// Checks that the norms that LayerNorm tuning trains by a configuration, a file or a folder with one, are `norms`, by
/// the ends of their names.
///
/// # Errors
/// If it cannot be read, or names others.
pub fn check_norms(path: &Path, norms: &[&str]) -> Result<(), AdapterError> {
    let path = config_file(path);
    let checked = read_config(&path)?.check_norms(&[norms]);
    checked.map_err(|error| AdapterError::Field {
        path,
        error: Box::new(error),
    })
}

/// Compares what decides an adapter's tensors and what they compute, but for what its tensors show.
fn agree(theirs: &AdapterOptions, ours: &AdapterOptions) -> Result<(), FieldError> {
    let differs = |field: &str, theirs: String, key: &str, ours: String| {
        let message = format!("`{field}` is {theirs}, and the cell's `{key}` is {ours}");
        Err(FieldError::new(field, message))
    };
    let adapters = [theirs, ours].map(|options| options.adapter().name().to_owned());
    if adapters[0] != adapters[1] {
        let [theirs, ours] = adapters;
        return differs("peft_type", theirs, "adapter", ours);
    }
    let fields = ours.adapter().facts().fields.iter().filter_map(Field::key);
    for field in fields.filter(|field| field.decides) {
        let [their_value, our_value] = [theirs, ours].map(|options| options.value(field.key));
        if !field.is_alike(&their_value, &our_value) {
            let [theirs, ours] = [their_value, our_value].map(|value| text(&field.write(&value)));
            return differs(field.name, theirs, field.key, ours);
        }
    }
    Ok(())
}

/// A value as a message has it.
fn text(value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(word), _) => word.to_owned(),
        (_, Some(number)) => number.to_string(),
        _ => value.to_string(),
    }
}

/// A mistake of blocks beside a text.
fn beside(text: &str) -> String {
    format!("`layers_to_transform` beside `target_modules: {text}`, where PEFT heeds none; list the modules' names")
}

impl Config {
    /// Checks that new adapters begin with values, and in modules, that are those of new adapters here.
    ///
    /// # Errors
    /// If a field asks for others.
    pub fn check_start(&self) -> Result<(), FieldError> {
        match &self.other_start {
            Some((field, value)) => Err(FieldError::unsupported(field, value)),
            None => self.check_layers(),
        }
    }

    /// Checks that LayerNorm tuning trains one of these choices of norms, by the ends of their names.
    ///
    /// # Errors
    /// If it names others.
    pub fn check_norms(&self, choices: &[&[&str]]) -> Result<(), FieldError> {
        let names = match &self.target_modules {
            Some(Targets::Names(names)) if self.adapter().is_of_norms() => names.iter().map(String::as_str).collect(),
            Some(Targets::Pattern(text)) if self.adapter().is_of_norms() => BTreeSet::from([text.as_str()]),
            _ => return Ok(()),
        };
        let choices: BTreeSet<BTreeSet<&str>> = choices.iter().map(|norms| norms.iter().copied().collect()).collect();
        if choices.contains(&names) {
            return Ok(());
        }
        let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        let (field, names) = ("target_modules", list(&names));
        let tuned = choices.iter().map(list).collect::<Vec<_>>().join("; or ");
        let message = format!("`{field}` names {names}, and the norms that are tuned are {tuned}");
        Err(FieldError::new(field, message))
    }

    /// PEFT heeds blocks only where it compares ends of names.
    fn check_layers(&self) -> Result<(), FieldError> {
        let field = "layers_to_transform";
        match (&self.target_modules, &self.layers_to_transform) {
            (Some(Targets::Pattern(_)), Some(Layers::Several(layers))) if layers.is_empty() => Ok(()),
            // It refuses them beside a text, or takes all blocks.
            (Some(Targets::Pattern(text)), Some(_)) => Err(FieldError::new(field, beside(text))),
            _ => Ok(()),
        }
    }
}
