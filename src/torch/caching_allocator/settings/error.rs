//! Errors in the text of settings.

use std::ops::Range;

/// Text that is not settings. Its `Display` shows the place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}\n  {text}\n  {}", help.as_ref().map(|help| format!("; {help}")).unwrap_or_default(), self.carets())]
pub struct SettingsError {
    /// The whole text.
    pub text: String,
    /// The bytes of `text` that are wrong.
    pub at: Range<usize>,
    /// The mistake, with the option's name.
    pub message: String,
    /// A value that would do.
    pub help: Option<String>,
}

impl SettingsError {
    /// A line that points at what is wrong in the line above.
    fn carets(&self) -> String {
        let before = self.text[..self.at.start].chars().count();
        let wrong = self.text[self.at.clone()].chars().count().max(1);
        " ".repeat(before) + &"^".repeat(wrong)
    }
}
