//! Errors of expressions.

use std::ops::Range;

use base::text::Mistake;
use minijinja::{Error, ErrorKind};

/// Help that travels with an error of a function.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Help(String);

/// The error of a function that was called with wrong arguments.
pub fn mistake(message: String, help: Option<String>) -> Error {
    let error = Error::new(ErrorKind::InvalidOperation, message);
    match help {
        Some(help) => error.with_source(Help(help)),
        None => error,
    }
}

/// An error of minijinja in our words.
pub(super) fn explain(error: &Error) -> Mistake {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let help = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Help>());
    Mistake {
        message,
        help: help.map(|Help(help)| help.clone()),
        range: error.range().filter(|range| !range.is_empty()),
    }
}

/// The first place where a whole word of `text` is `name`.
pub fn place_of(name: &str, text: &str) -> Option<Range<usize>> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |at: &usize| !text[..*at].ends_with(of_name) && !text[at + name.len()..].starts_with(of_name);
    let at = text.match_indices(name).map(|(at, _)| at).find(whole)?;
    Some(at..at + name.len())
}
