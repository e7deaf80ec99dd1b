//! All mistakes of a cell.

use std::fmt;

use options::Invalid;

/// All values that a cell cannot have: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCell(pub Vec<Invalid>);

impl fmt::Display for InvalidCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for InvalidCell {}
