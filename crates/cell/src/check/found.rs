//! The mistakes in one cell, without those that follow from others.

use options::Invalid;

use super::invalid::InvalidCell;

/// The mistakes that the checks of a cell found.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<Invalid>);

impl Found {
    /// Adds a value that is invalid, unless it follows from one that was found before.
    pub(super) fn add(&mut self, invalid: Invalid) {
        let follows = |known: &Invalid| known.key == invalid.key || invalid.with.contains(&&*known.key);
        if !self.0.iter().any(follows) {
            self.0.push(invalid);
        }
    }

    /// Adds the mistake of a check, if it failed.
    pub(super) fn check(&mut self, checked: Result<(), Invalid>) {
        checked.unwrap_or_else(|invalid| self.add(invalid));
    }

    pub(super) fn result(self) -> Result<(), InvalidCell> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(InvalidCell(self.0)),
        }
    }
}
