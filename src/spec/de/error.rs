//! A mistake that typing finds, with its key and its place.

use std::fmt;

use serde::de;

use crate::spec::aliases;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::keys;
use crate::spec::place::Place;
use crate::text::{Mistake, either, quoted};

/// A mistake, and the key that it is in.
#[derive(Debug, Clone)]
pub(crate) struct Error {
    pub mistake: Mistake,
    pub place: Option<Place>,
    /// From the outermost key to the innermost.
    pub path: Vec<String>,
    /// The last key of the path is one that there is not.
    pub unknown_key: bool,
}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Self {
        Self {
            mistake,
            place: None,
            path: Vec::new(),
            unknown_key: false,
        }
    }
}

impl Error {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Mistake::new(message).into()
    }

    /// Fills in what the inner error could not know.
    pub(super) fn within(mut self, segment: &str, place: Place) -> Self {
        self.place.get_or_insert(place);
        self.path.insert(0, segment.to_owned());
        self
    }

    /// The key's path below `prefix`, such as `defaults.target_modules[2]`.
    pub(crate) fn dotted(&self, prefix: &str) -> String {
        self.path
            .iter()
            .fold(prefix.to_owned(), |path, segment| match segment.parse::<usize>() {
                Ok(index) => format!("{path}[{index}]"),
                Err(_) if path.is_empty() => segment.clone(),
                Err(_) => format!("{path}.{segment}"),
            })
    }

    /// The mistake with its place; `prefix` is the path of the node that was read.
    pub(crate) fn diagnostic(self, prefix: &str) -> Diagnostic {
        let diagnostic = Diagnostic::of(&self.dotted(prefix), &self.mistake);
        match self.place {
            Some(place) => diagnostic.at(place),
            None => diagnostic,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistake.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(got: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let got = match got {
            de::Unexpected::Bool(value) => quoted(&value.to_string()),
            de::Unexpected::Unsigned(value) => quoted(&value.to_string()),
            de::Unexpected::Signed(value) => quoted(&value.to_string()),
            de::Unexpected::Float(value) => quoted(&value.to_string()),
            de::Unexpected::Str(value) => quoted(value),
            de::Unexpected::Unit | de::Unexpected::Option => "null".into(),
            de::Unexpected::Seq => "a list".into(),
            de::Unexpected::Map => "a map".into(),
            other => other.to_string(),
        };
        Self::new(format!("expected {expected}, got {got}"))
    }

    fn invalid_value(got: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(got, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let segments: Vec<String> = field.split('.').map(str::to_owned).collect();
        // The cell's own keys; those of a map within it have not moved.
        let is_cell = expected.contains(&"torch");
        let mistake = match keys::moved(field).filter(|_| is_cell) {
            Some(below) if below.starts_with("lora.") => {
                Mistake::new("the key stands under `lora`").help(format!("write `{}`", nested(below)))
            }
            Some(moved) => Mistake::new("the key has moved").help(format!("write `{}`", nested(moved))),
            None if is_cell && keys::is_known(&segments) => {
                Mistake::new("the key of an inner map has no dot").help(format!("write `{}`", nested(field)))
            }
            None if expected.contains(&"use_cache") && keys::moved(&format!("torch.{field}")).is_some() => {
                Mistake::new("the key has moved").help(format!("write `{field}: ...` beside `torch`"))
            }
            None => Mistake::new("unknown key").help(known(field, expected)),
        };
        Self {
            unknown_key: true,
            ..mistake.into()
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Mistake::new(format!("expected {}, got {}", either(expected), quoted(variant)))
            .help_if(aliases::suggestion(variant, expected))
            .into()
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the key `{field}` is missing"))
    }
}

/// `torch: {use_cache: ...}` for `torch.use_cache`.
fn nested(key: &str) -> String {
    match key.split_once('.') {
        Some((first, rest)) => format!("{first}: {{{}}}", nested(rest)),
        None => format!("{key}: ..."),
    }
}

fn known(word: &str, expected: &[&str]) -> String {
    if let Some(near) = aliases::suggestion(word, expected) {
        return near;
    }
    match expected.len() {
        0 => "there are no keys here".into(),
        1..=12 => format!("the keys here are {}", either(expected).replace(" or ", " and ")),
        _ => "`expctl schema` lists the keys".into(),
    }
}
