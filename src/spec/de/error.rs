//! What is wrong with a value, before the place of its text is shown.

use std::fmt;

use serde::de;

use crate::spec::error::Diagnostic;
use crate::spec::keys;
use crate::spec::source::Place;
use crate::text::{either, quoted};

/// What was wrong, and under which key.
#[derive(Debug, Clone)]
pub(crate) struct Error {
    pub message: String,
    pub help: Option<String>,
    pub place: Option<Place>,
    /// From the outermost key to the innermost.
    pub path: Vec<String>,
}

impl Error {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            place: None,
            path: Vec::new(),
        }
    }

    /// Fills in what the inner error could not know.
    pub(super) fn within(mut self, segment: &str, place: Place) -> Self {
        self.place.get_or_insert(place);
        self.path.insert(0, segment.to_owned());
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

    /// As an error that points at its place; `prefix` is the path of the node that was read.
    pub fn diagnostic(self, prefix: &str) -> Diagnostic {
        let path = self.dotted(prefix);
        let message = if path.is_empty() {
            self.message
        } else {
            format!("{path}: {}", self.message)
        };
        let diagnostic = Diagnostic::new(message).help_if(self.help);
        match self.place {
            Some(place) => diagnostic.at(place),
            None => diagnostic,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
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
        // The cell's own keys; those of a map within it have not moved.
        if expected.contains(&"torch") && keys::moved(field).is_some() {
            let mut error = Self::new("the key has moved");
            error.help = Some(format!("write `torch: {{{field}: ...}}`"));
            return error;
        }
        let mut error = Self::new("unknown key");
        error.help = Some(known(field, expected, "keys"));
        error
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let mut error = Self::new(format!("expected {}, got {}", either(expected), quoted(variant)));
        error.help = keys::suggestion(variant, expected);
        error
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the key `{field}` is missing"))
    }
}

fn known(word: &str, expected: &[&str], what: &str) -> String {
    if let Some(near) = keys::suggestion(word, expected) {
        return near;
    }
    match expected.len() {
        0 => format!("there are no {what} here"),
        1..=12 => format!("the {what} here are {}", either(expected).replace(" or ", " and ")),
        _ => "`expctl schema` lists the keys".into(),
    }
}
