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

    /// A value that asks for something that is not done here.
    pub(super) fn unsupported(field: &str, value: impl Display) -> Self {
        Self::new(field, format!("`{field}: {value}` is not supported"))
    }
}
