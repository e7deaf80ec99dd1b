//! Typed values out of a tree. A name that there is not gets the help that a spec has for it: where the key has moved,
//! and what other programs call it.

use base::text::{Mistake, either};
use cell::keys;
use serde::de::DeserializeOwned;
use yaml::de::{self, Error, Unknown};
use yaml::tree::Node;

use super::aliases::suggestion;
use super::foreign::of_data;
use super::ours::in_spec;

/// Reads a `T` from `node`.
pub(crate) fn read<T: DeserializeOwned>(node: &Node) -> Result<T, Error> {
    de::read(node).map_err(explained)
}

/// Reads a `T` from `node` and finds all mistakes in it, as [`de::read_all`] does.
pub(crate) fn read_all<T: DeserializeOwned>(node: &mut Node) -> (Option<T>, Vec<Error>) {
    let (value, errors) = de::read_all(node);
    (value, errors.into_iter().map(explained).collect())
}

fn explained(mut error: Error) -> Error {
    if let Some(unknown) = &error.unknown {
        error.mistake = match unknown.is_key {
            true => unknown_key(unknown),
            false => error.mistake.help_if(suggestion(&unknown.word, unknown.expected)),
        };
    }
    error
}

fn unknown_key(unknown: &Unknown) -> Mistake {
    let (key, expected) = (unknown.word.as_str(), unknown.expected);
    let segments: Vec<String> = key.split('.').map(str::to_owned).collect();
    // The cell's own keys; those of a map within it have not moved.
    let is_cell = expected.contains(&"torch");
    match keys::moved(key).filter(|_| is_cell) {
        Some(below) if below.starts_with("lora.") => {
            Mistake::new("the key stands under `lora`").help(format!("write `{}`", nested(below)))
        }
        Some(moved) => Mistake::new("the key has moved").help(format!("write `{}`", nested(moved))),
        None if is_cell && keys::is_known(&segments) => {
            Mistake::new("the key of an inner map has no dot").help(format!("write `{}`", nested(key)))
        }
        None if expected.contains(&"use_cache") && keys::moved(&format!("torch.{key}")).is_some() => {
            Mistake::new("the key has moved").help(format!("write `{key}: ...` beside `torch`"))
        }
        None => {
            Mistake::new("unknown key").help(match of_data(key).filter(|_| expected.contains(&"messages_column")) {
                Some(help) => help.to_owned(),
                None if is_cell => known_of_cell(unknown),
                None => known(key, expected),
            })
        }
    }
}

/// `torch: {use_cache: ...}` for `torch.use_cache`.
fn nested(key: &str) -> String {
    match key.split_once('.') {
        Some((first, rest)) => format!("{first}: {{{}}}", nested(rest)),
        None => format!("{key}: ..."),
    }
}

/// YAML takes `key:value` of a map in braces for a key.
pub(crate) fn spaced(word: &str, expected: &[&str]) -> Option<String> {
    let (key, value) = word.split_once(':')?;
    expected
        .contains(&key)
        .then(|| format!("a space is missing: `{key}: {value}`"))
}

/// The help for a key that a cell does not have: what does the same, with the value that it was given.
fn known_of_cell(unknown: &Unknown) -> String {
    let Unknown {
        word, expected, value, ..
    } = unknown;
    spaced(word, expected)
        .or_else(|| in_spec(word, value.as_deref()))
        .unwrap_or_else(|| known(word, expected))
}

fn known(word: &str, expected: &[&str]) -> String {
    if let Some(near) = spaced(word, expected).or_else(|| suggestion(word, expected)) {
        return near;
    }
    match expected.len() {
        0 => "there are no keys here".into(),
        1..=12 => format!("the keys here are {}", either(expected).replace(" or ", " and ")),
        _ => "`expctl schema` lists the keys".into(),
    }
}
