//! Two cells that are compared.

use crate::report::entry::Entry;

/// A cell of A and the one of B that it is compared with.
#[derive(Debug, Clone, Copy)]
pub struct MatchedPair<'c> {
    pub a: &'c Entry,
    pub b: &'c Entry,
}

impl MatchedPair<'_> {
    /// What a measured column is in B over what it is in A; none where either has none.
    pub fn ratio(&self, column: &str) -> Option<f64> {
        let (a, b) = (self.a.number(column)?, self.b.number(column)?);
        // Nothing over nothing is no change.
        Some(if a == b { 1.0 } else { b / a })
    }
}
