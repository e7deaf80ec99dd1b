//! Mistakes in fields of `adapter_config.json`.

use std::fmt::Display;

use base::text::Mistake;

/// A mistake in a field of `adapter_config.json`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{mistake}")]
pub struct FieldError {
    /// The field's name.
    pub field: String,
    /// The mistake, which names it.
    pub mistake: Mistake,
}

impl FieldError {
    /// A mistake in a field that the message names.
    pub(super) fn new(field: &str, message: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            mistake: Mistake::new(message),
        }
    }

    /// A value that is not one of the field's, by the reader's message.
    pub(super) fn value(field: &str, value: impl Display, message: &str) -> Self {
        Self::new(field, format!("`{field}: {value}`: {}", in_plain_words(message)))
    }

    /// A value that asks for something that is not done here.
    pub(super) fn unsupported(field: &str, value: impl Display) -> Self {
        Self::new(field, format!("`{field}: {value}` is not supported"))
    }
}

/// A message of serde without Rust's names of types.
fn in_plain_words(message: &str) -> String {
    let Some((got, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "usize" | "u64" | "u32" => "a whole number of 0 or more",
        "i64" | "i32" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        other => other,
    };
    format!("{got}, expected {expected}")
}
