//! The layers of a spec: built-in defaults, below the file, below `EXPCTL_` variables, below `--set`.
//!
//! A layer that sets a key replaces what the key had, maps included; a dotted key reaches inside a map. Nothing is
//! typed before all layers lie, so that every value knows its text and its place.

use std::path::Path;

use base::text::{did_you_mean, nearest, quoted};
use cell::keys;
use yaml::Budget;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::{Place, Sources};
use yaml::tree::{Node, Scalar, Value};

use super::aliases;
use super::as_setting::option_of;
use super::foreign::{foreign, of_data};
use super::ours::ours;
use super::overrides::{Flag, Overrides, PREFIX};
use super::schema::settable;

/// One override, read.
pub(crate) struct Layer {
    /// The text that gave it, such as `--set rank=8`.
    pub origin: String,
    /// The key's segments from the root of the spec, such as `defaults`, `rank`.
    pub path: Vec<String>,
    pub key: Place,
    pub value: Node,
}

impl Layer {
    /// The segments of the cell's key that this sets; `None` if it sets another key of the spec.
    pub(crate) fn cell_key(&self) -> Option<&[String]> {
        self.path.strip_prefix(&["defaults".to_owned()])
    }
}

/// The override that a cell's key has its value from: the last of those that set it.
pub(crate) fn highest<'l>(layers: &'l [Layer], key: &[String]) -> Option<&'l Layer> {
    let sets = |layer: &&Layer| layer.cell_key().is_some_and(|path| key.starts_with(path));
    layers.iter().rfind(sets)
}

/// Lays the overrides over the tree of a spec.
pub(crate) fn lay_over(spec: &mut Node, layers: &[Layer]) {
    for layer in layers {
        spec.set(&layer.path, layer.key, layer.value.clone());
    }
}

/// Reads all overrides, lowest first.
pub(crate) fn read(overrides: &Overrides, sources: &mut Sources, mistakes: &mut Mistakes) -> Vec<Layer> {
    let mut layers = Vec::new();
    for flag in overrides.flags() {
        layers.push(named_key(flag, sources.add_argument(flag.option, flag.value.as_str())));
    }
    layers.extend(
        overrides
            .data()
            .map(|data| named_data(data, sources.add_argument("--data", data))),
    );
    for (name, value) in overrides.variables() {
        let source = sources.add_argument("environment", format!("{name}={value}"));
        let layer = variable(name, value, source, mistakes);
        layers.extend(mistakes.take(layer));
    }
    for setting in overrides.settings() {
        let source = sources.add_argument("--set", setting.as_str());
        let layer = set(setting, source, mistakes);
        layers.extend(mistakes.take(layer));
    }
    layers
}

/// The key that an option stands for.
fn named_key(flag: &Flag, source: u32) -> Layer {
    let place = Place {
        source,
        start: 0,
        end: flag.value.len() as u32,
    };
    Layer {
        origin: format!("{} {}", flag.option, flag.value),
        path: rooted(vec![flag.key.to_owned()]),
        key: place,
        value: Node {
            value: Value::Scalar(Scalar {
                text: flag.value.as_str().into(),
                plain: false,
            }),
            place,
        },
    }
}

/// The data that `--data` names: one of two words, or a path.
fn named_data(data: &str, source: u32) -> Layer {
    let place = Place {
        source,
        start: 0,
        end: data.len() as u32,
    };
    // A word that is nearly one of these, and not a file, is a mistake in it.
    let words = ["sample", "synthetic"];
    let is_word = words.contains(&data) || nearest(data, words).is_some() && !Path::new(data).exists();
    let text = Node {
        value: Value::Scalar(Scalar {
            text: data.into(),
            plain: is_word,
        }),
        place,
    };
    let mut value = Node::empty_map(place);
    value.set(&["path".to_owned()], place, text.clone());
    Layer {
        origin: format!("--data {data}"),
        path: rooted(vec!["data".to_owned()]),
        key: place,
        value: if is_word { text } else { value },
    }
}

fn variable(name: &str, value: &str, source: u32, mistakes: &mut Mistakes) -> Result<Layer, Diagnostic> {
    let key = Place {
        source,
        start: 0,
        end: name.len() as u32,
    };
    let written: Vec<&str> = name[PREFIX.len()..].split("__").collect();
    if written[0].eq_ignore_ascii_case("sweep") {
        return Err(sweep_is_set(key));
    }
    let Some(path) = variable_path(&written) else {
        let word = written.join(".").to_lowercase();
        let variable = |key: &str| format!("{PREFIX}{}", key.replace('.', "__").to_uppercase());
        if let Some(moved) = keys::moved(&word) {
            mistakes.leave_open(Some(moved));
            return Err(Diagnostic::new(format!("the key {} has moved", quoted(&word)))
                .at(key)
                .help(format!("write `{}`", variable(moved))));
        }
        let near = nearest_key(&word);
        mistakes.leave_open(near);
        let help = match near.filter(|_| foreign(&word).is_none()) {
            Some(near) => did_you_mean(&variable(near)),
            None => foreign(&word)
                .unwrap_or("a variable that begins with EXPCTL_ must name a key, as EXPCTL_ALLOCATOR__ENV__NAME does")
                .into(),
        };
        let message = format!("the environment variable {} names no key", quoted(name));
        return Err(Diagnostic::new(message).at(key).help(help));
    };
    let value = yaml::parse(value, source, name.len() as u32 + 1, Budget::SPEC);
    let value = value.inspect_err(|_| mistakes.leave_open(Some(&path[0])))?;
    Ok(Layer {
        origin: name.to_owned(),
        path: rooted(path),
        key,
        value,
    })
}

/// The key that a variable's segments name: in any case, except for the names in a free map.
fn variable_path(written: &[&str]) -> Option<Vec<String>> {
    let patterns = keys::keys().iter().map(|key| key.path.as_str()).chain(settable_names());
    patterns
        .map(|pattern| pattern.split('.').collect::<Vec<_>>())
        .find_map(|pattern| {
            let fits = |(segment, word): (&&str, &&str)| {
                *segment == "*" && !word.is_empty() || segment.eq_ignore_ascii_case(word)
            };
            let name = |(segment, word): (&&str, &&str)| if *segment == "*" { *word } else { *segment }.to_owned();
            let pairs = || pattern.iter().zip(written);
            (pattern.len() == written.len() && pairs().all(fits)).then(|| pairs().map(name).collect())
        })
}

fn set(setting: &str, source: u32, mistakes: &mut Mistakes) -> Result<Layer, Diagnostic> {
    let Some((name, value)) = setting.split_once('=') else {
        let place = Place {
            source,
            start: 0,
            end: setting.len() as u32,
        };
        return Err(Diagnostic::new("`--set` takes a key and a value: `--set rank=8`").at(place));
    };
    let key = Place {
        source,
        start: 0,
        end: name.len() as u32,
    };
    let name = name.trim();
    let path: Vec<String> = name
        .strip_prefix("defaults.")
        .unwrap_or(name)
        .split('.')
        .map(str::to_owned)
        .collect();
    if path[0] == "sweep" {
        return Err(sweep_is_set(key));
    }
    if let Some(moved) = keys::moved(&path.join(".")) {
        mistakes.leave_open(Some(moved));
        return Err(Diagnostic::new(format!("the key {} has moved", quoted(name)))
            .at(key)
            .help(format!("write `{}`", option_of(moved, value.trim(), false))));
    }
    if !keys::is_known(&path) && !is_settable(name) {
        let near = nearest_key(&path.join("."));
        mistakes.leave_open(near);
        return Err(Diagnostic::new(format!("{} names no key", quoted(name)))
            .at(key)
            .help_if(help(&path, value.trim())));
    }
    let value = yaml::parse(value, source, (setting.len() - value.len()) as u32, Budget::SPEC);
    let value = value.inspect_err(|_| mistakes.leave_open(Some(&path[0])))?;
    Ok(Layer {
        origin: format!("--set {setting}"),
        path: rooted(path),
        key,
        value,
    })
}

/// What would be right for a setting that names no key.
fn help(path: &[String], value: &str) -> Option<String> {
    let name = path.join(".");
    let of_data = name.strip_prefix("data.").and_then(of_data).map(str::to_owned);
    of_data
        .or_else(|| ours(&name, Some(value), false))
        .or_else(|| suggested_key(&name))
}

fn sweep_is_set(key: Place) -> Diagnostic {
    Diagnostic::new("the sweep itself cannot be set; set a swept key to fix its axis").at(key)
}

fn settable_names() -> impl Iterator<Item = &'static str> {
    settable().iter().map(|key| key.path.as_str())
}

fn is_settable(name: &str) -> bool {
    settable_names().any(|key| key == name)
}

fn nearest_key(name: &str) -> Option<&'static str> {
    aliases::near(name, &known_keys())
}

fn suggested_key(name: &str) -> Option<String> {
    aliases::suggestion(name, &known_keys())
}

fn known_keys() -> Vec<&'static str> {
    keys::named().chain(settable_names()).collect()
}

/// A cell's keys are below `defaults`, the others at the root.
fn rooted(path: Vec<String>) -> Vec<String> {
    if is_settable(&path[0]) {
        path
    } else {
        [vec!["defaults".to_owned()], path].concat()
    }
}
