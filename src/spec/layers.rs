//! The layers of a spec: built-in defaults, below the file, below `EXPCTL_` variables, below `--set`.
//!
//! figment merges. What it merges are numbers of nodes, not values: every leaf still knows its text and its place, and is
//! typed by its key once the merging is done. A layer that sets a key replaces what the key had, maps included; a dotted
//! key reaches inside a map.

use std::collections::HashMap;
use std::rc::Rc;

use figment::value::{Dict, Num, Tag, Value as Merged};
use figment::{Figment, Metadata, Profile, Provider};

use super::error::{Diagnostic, SpecError};
use super::keys;
use super::source::{Place, Sources};
use super::tree::{Entry, Map, Node, Value};
use super::yaml::{self, Budget};
use crate::text::quoted;

/// What is laid over a spec's file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    variables: Vec<(String, String)>,
    settings: Vec<String>,
}

const PREFIX: &str = "EXPCTL_";

impl Overrides {
    /// `variables` are names and values of environment variables, of which those that begin with `EXPCTL_` count;
    /// `settings` are `key=value` texts, later ones above earlier ones.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, settings: Vec<String>) -> Self {
        let mut variables: Vec<_> = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect();
        variables.sort_unstable();
        Self { variables, settings }
    }

    pub(super) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    pub(super) fn settings(&self) -> &[String] {
        &self.settings
    }

    /// The process's environment, and `settings` above it.
    ///
    /// # Errors
    /// An `EXPCTL_` variable that is not UTF-8.
    pub fn from_environment(settings: Vec<String>) -> Result<Self, SpecError> {
        let mut variables = Vec::new();
        for (name, value) in std::env::vars_os() {
            let (name, value) = match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => (name, value),
                (Ok(name), Err(_)) if name.starts_with(PREFIX) => {
                    return Err(SpecError::without_place(format!(
                        "the environment variable {name} is not UTF-8"
                    )));
                }
                _ => continue,
            };
            variables.push((name, value));
        }
        Ok(Self::new(variables, settings))
    }
}

/// One override, read.
pub(crate) struct Layer {
    /// How it was given, such as `--set rank=8`.
    pub origin: String,
    /// The key's segments from the root of the spec, such as `defaults`, `rank`.
    pub path: Vec<String>,
    pub key: Place,
    pub value: Node,
}

impl Layer {
    /// The segments of the cell's key that this sets; none where it sets another key of the spec.
    pub fn cell_key(&self) -> Option<&[String]> {
        self.path.strip_prefix(&["defaults".to_owned()])
    }
}

/// Keys that a spec has beside those of a cell and its sweep.
const SPEC_KEYS: [&str; 12] = [
    "name",
    "description",
    "repeats",
    "limits",
    "limits.timeout",
    "record",
    "record.timeline",
    "record.timeline_steps",
    "report",
    "report.template",
    "report.output",
    "report.baseline",
];

/// Reads all overrides, lowest first.
pub(crate) fn read(overrides: &Overrides, sources: &mut Sources) -> Result<Vec<Layer>, Diagnostic> {
    let mut layers = Vec::new();
    for (name, value) in &overrides.variables {
        layers.push(variable(name, value, sources)?);
    }
    for setting in &overrides.settings {
        layers.push(set(setting, sources)?);
    }
    Ok(layers)
}

fn variable(name: &str, value: &str, sources: &mut Sources) -> Result<Layer, Diagnostic> {
    let (source, text) = add("environment", format!("{name}={value}"), sources);
    let key = Place {
        source,
        start: 0,
        end: name.len() as u32,
    };
    let written: Vec<&str> = name[PREFIX.len()..].split("__").collect();
    let Some(path) = variable_path(&written) else {
        let near = nearest_key(&written.join(".").to_lowercase());
        let help = match near {
            Some(near) => crate::text::did_you_mean(&format!("{PREFIX}{}", near.replace('.', "__").to_uppercase())),
            None => "a variable that begins with EXPCTL_ must name a key, as EXPCTL_ALLOCATOR__ENV__NAME does".into(),
        };
        let message = format!("the environment variable {} names no key", quoted(name));
        return Err(Diagnostic::new(message).at(key).help(help));
    };
    let value = yaml::parse(value, source, (text.len() - value.len()) as u32, Budget::SPEC)?;
    Ok(Layer {
        origin: name.to_owned(),
        path: rooted(path),
        key,
        value,
    })
}

/// The key that a variable's segments name: in any case, except for the names in a free map.
fn variable_path(written: &[&str]) -> Option<Vec<String>> {
    let patterns = keys::keys().iter().map(|key| key.path.as_str()).chain(SPEC_KEYS);
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

fn set(setting: &str, sources: &mut Sources) -> Result<Layer, Diagnostic> {
    let (source, text) = add("--set", setting.to_owned(), sources);
    let Some((name, value)) = text.split_once('=') else {
        let place = Place {
            source,
            start: 0,
            end: text.len() as u32,
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
        let message = "the sweep itself cannot be set; set a swept key to fix its axis";
        return Err(Diagnostic::new(message).at(key));
    }
    if let Some(moved) = keys::moved(&path.join(".")) {
        return Err(Diagnostic::new(format!("the key {} has moved", quoted(name)))
            .at(key)
            .help(format!("write `{moved}`")));
    }
    if !keys::is_known(&path) && !SPEC_KEYS.contains(&name) {
        let help = nearest_key(&path.join(".")).map(crate::text::did_you_mean);
        return Err(Diagnostic::new(format!("{} names no key", quoted(name)))
            .at(key)
            .help_if(help));
    }
    let value = yaml::parse(value, source, (text.len() - value.len()) as u32, Budget::SPEC)?;
    Ok(Layer {
        origin: format!("--set {setting}"),
        path: rooted(path),
        key,
        value,
    })
}

fn add(name: &str, text: String, sources: &mut Sources) -> (u32, String) {
    (sources.add(name, text.clone()), text)
}

fn nearest_key(name: &str) -> Option<&'static str> {
    let known: Vec<&str> = keys::named().chain(SPEC_KEYS).collect();
    keys::near(name, &known)
}

/// A cell's keys are below `defaults`, the others at the root.
fn rooted(path: Vec<String>) -> Vec<String> {
    if SPEC_KEYS.contains(&path[0].as_str()) {
        path
    } else {
        [vec!["defaults".to_owned()], path].concat()
    }
}

/// The file with the layers over it.
pub(crate) fn merge(file: &Node, layers: &[Layer]) -> Result<Node, Diagnostic> {
    let mut arena = Arena::default();
    let dict = match arena.value(file, &mut Vec::new()) {
        Merged::Dict(_, dict) => dict,
        _ => Dict::new(),
    };
    let mut figment = Figment::from(Provided {
        name: "file".into(),
        dict,
    });
    for layer in layers {
        // A map in a layer would be merged into the map below it; the placeholder takes its place first.
        let placeholder = arena.leaf(&layer.value);
        figment = figment.merge(arena.layer(layer, placeholder));
        let value = arena.value(&layer.value, &mut layer.path.clone());
        figment = figment.merge(arena.layer(layer, value));
    }
    let merged = figment.data().map_err(|error| Diagnostic::new(error.to_string()))?;
    let dict = merged
        .into_iter()
        .find_map(|(profile, dict)| (profile == Profile::Default).then_some(dict));
    Ok(arena.node(
        &Merged::Dict(Tag::Default, dict.unwrap_or_default()),
        &mut Vec::new(),
        file.place,
    ))
}

/// A layer as figment wants it.
struct Provided {
    name: String,
    dict: Dict,
}

impl Provider for Provided {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<figment::value::Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

/// The nodes whose numbers figment merges, and the places of the keys.
#[derive(Default)]
struct Arena {
    nodes: Vec<Node>,
    keys: HashMap<Vec<String>, Place>,
}

impl Arena {
    fn leaf(&mut self, node: &Node) -> Merged {
        self.nodes.push(node.clone());
        Merged::Num(Tag::Default, Num::USize(self.nodes.len() - 1))
    }

    fn value(&mut self, node: &Node, path: &mut Vec<String>) -> Merged {
        let Value::Map(map) = &node.value else {
            return self.leaf(node);
        };
        let mut dict = Dict::new();
        for (key, entry) in map.iter() {
            path.push(key.to_string());
            self.keys.insert(path.clone(), entry.key);
            dict.insert(key.to_string(), self.value(&entry.value, path));
            path.pop();
        }
        Merged::Dict(Tag::Default, dict)
    }

    fn layer(&mut self, layer: &Layer, value: Merged) -> Provided {
        for depth in 1..=layer.path.len() {
            let place = self.keys.entry(layer.path[..depth].to_vec()).or_insert(layer.key);
            if depth == layer.path.len() {
                *place = layer.key;
            }
        }
        let wrap = |value, key: &String| Merged::Dict(Tag::Default, Dict::from([(key.clone(), value)]));
        let dict = match layer.path.iter().rev().fold(value, wrap) {
            Merged::Dict(_, dict) => dict,
            _ => Dict::new(),
        };
        Provided {
            name: layer.origin.clone(),
            dict,
        }
    }

    /// The merged tree with its nodes back in it, in the order in which they were written.
    fn node(&self, merged: &Merged, path: &mut Vec<String>, place: Place) -> Node {
        let dict = match merged {
            Merged::Dict(_, dict) => dict,
            Merged::Num(_, Num::USize(number)) => return self.nodes[*number].clone(),
            _ => return Node::empty_map(place),
        };
        let mut map = Map::new();
        for (key, value) in dict {
            path.push(key.clone());
            let place = self.keys.get(path).copied().unwrap_or(place);
            map.insert(
                key.as_str().into(),
                Entry {
                    key: place,
                    value: self.node(value, path, place),
                },
            );
            path.pop();
        }
        map.sort_by(|_, a, _, b| (a.key.source, a.key.start).cmp(&(b.key.source, b.key.start)));
        Node {
            value: Value::Map(Rc::new(map)),
            place,
        }
    }
}
