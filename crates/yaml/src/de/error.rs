//! A mistake that typing finds, with its key and its place.

use std::fmt;

use base::text::{Mistake, either, quoted};
use serde::de;

use crate::diagnostic::Diagnostic;
use crate::place::Place;
use crate::tree::Node;

/// A mistake, and the key that it is in.
#[derive(Debug, Clone)]
pub struct Error {
    /// What is wrong, and what would be right.
    pub mistake: Mistake,
    /// Where the value was written.
    pub place: Option<Place>,
    /// From the outermost key to the innermost.
    pub path: Vec<String>,
    /// What is not among the names that there are.
    pub unknown: Option<Box<Unknown>>,
}

/// A name that is not one of those that there are.
#[derive(Debug, Clone)]
pub struct Unknown {
    /// The name, as it is written.
    pub word: String,
    /// True for the last key of the path, false for its value.
    pub is_key: bool,
    /// The names that there are.
    pub expected: &'static [&'static str],
    /// What stands behind an unknown key, as YAML on one line.
    pub value: Option<String>,
}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Self {
        Self {
            mistake,
            place: None,
            path: Vec::new(),
            unknown: None,
        }
    }
}

impl Error {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Mistake::new(message).into()
    }

    /// True if the last key of the path is one that there is not.
    pub fn is_unknown_key(&self) -> bool {
        self.unknown.as_ref().is_some_and(|unknown| unknown.is_key)
    }

    /// Fills in what the inner error could not know.
    pub(super) fn within(mut self, segment: &str, place: Place) -> Self {
        self.place.get_or_insert(place);
        self.path.insert(0, segment.to_owned());
        self
    }

    /// Notes the value of a key that is unknown.
    pub(super) fn with_value(mut self, value: &Node) -> Self {
        if let Some(unknown) = self.unknown.as_mut().filter(|unknown| unknown.is_key) {
            unknown.value = Some(value.to_flow_yaml());
        }
        self
    }

    /// The key's path below `prefix`, such as `defaults.target_modules[2]`.
    pub fn dotted(&self, prefix: &str) -> String {
        self.path
            .iter()
            .fold(prefix.to_owned(), |path, segment| match segment.parse::<usize>() {
                Ok(index) => format!("{path}[{index}]"),
                Err(_) if path.is_empty() => segment.clone(),
                Err(_) => format!("{path}.{segment}"),
            })
    }

    /// The mistake with its place; `prefix` is the path of the node that was read.
    pub fn diagnostic(self, prefix: &str) -> Diagnostic {
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
        let unknown = Unknown {
            word: field.to_owned(),
            is_key: true,
            expected,
            value: None,
        };
        Self {
            unknown: Some(Box::new(unknown)),
            ..Self::new("unknown key")
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let unknown = Unknown {
            word: variant.to_owned(),
            is_key: false,
            expected,
            value: None,
        };
        Self {
            unknown: Some(Box::new(unknown)),
            ..Self::new(format!("expected {}, got {}", either(expected), quoted(variant)))
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the key `{field}` is missing"))
    }
}
