//! A text for readers, and where it was written.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::origin::Origin;

/// A text of the spec that may hold figures: expressions that a report evaluates. It reads as its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prose {
    text: String,
    /// For mistakes in the expressions.
    #[serde(skip)]
    pub origin: Origin,
}

impl Prose {
    /// True if there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text.
    pub fn set(&mut self, text: String) {
        self.text = text;
    }
}

impl From<String> for Prose {
    fn from(text: String) -> Self {
        Self {
            text,
            origin: Origin::default(),
        }
    }
}

impl Deref for Prose {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}
