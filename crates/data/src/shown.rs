//! A sample for people.

use std::ops::Range;

use super::targets::predicted;

/// A sample as it is trained on.
#[derive(Debug)]
pub struct Shown {
    /// The text in parts, each with whether its tokens are predicted.
    pub parts: Vec<(String, bool)>,
    /// The token ids.
    pub ids: Vec<u32>,
    /// The ranges of predicted tokens; `None` if all are.
    pub targets: Option<Vec<Range<u32>>>,
}

impl Shown {
    /// The number of predicted tokens.
    pub fn predicted(&self) -> usize {
        predicted(
            self.ids.len(),
            self.targets.as_ref().map(|ranges| ranges.iter().cloned()),
        )
    }
}
