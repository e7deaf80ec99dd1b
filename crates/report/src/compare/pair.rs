//! Two cells that are compared.

use crate::entry::Entry;

/// A cell of A and the one of B that it is compared with.
#[derive(Debug, Clone, Copy)]
pub struct MatchedPair<'c> {
    /// The cell of A.
    pub a: &'c Entry,
    /// The cell of B.
    pub b: &'c Entry,
}

impl MatchedPair<'_> {
    /// The ratio of a measured column in B to that in A; `None` if either lacks it.
    pub fn ratio(&self, column: &str) -> Option<f64> {
        let (a, b) = (self.a.number(column)?, self.b.number(column)?);
        // Zero over zero means no change.
        Some(if a == b { 1.0 } else { b / a })
    }
}
