//! Values that pick cells of a study by their keys: those of the baseline, of a published figure, of a claim.

use cell::Cell;
use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

/// Values by dotted key, as in [`Cell::value`].
pub type Selection = IndexMap<String, Json>;

/// What a selection may find of a cell: the cell, and what the spec has for it.
pub(super) struct Candidate {
    cell: Keys,
    asked: Option<Keys>,
}

impl Candidate {
    pub(super) fn new(cell: &Cell, asked: Option<&Cell>) -> Self {
        Self {
            cell: Keys::of(cell),
            asked: asked.filter(|asked| *asked != cell).map(Keys::of),
        }
    }

    /// True if the cell has all of these values, or the spec has them for it.
    pub(super) fn has(&self, selection: &Selection) -> bool {
        let has = |keys: &Keys| selection.iter().all(|(key, value)| keys.has(key, value));
        has(&self.cell) || self.asked.as_ref().is_some_and(has)
    }
}

/// The keys of a cell.
struct Keys {
    written: Map<String, Json>,
    /// What they come to by their defaults.
    resolved: Map<String, Json>,
}

impl Keys {
    fn of(cell: &Cell) -> Self {
        Self {
            written: cell.to_map(),
            resolved: cell.resolved().to_map(),
        }
    }

    /// True if the cell has this value, or comes to it by its default.
    fn has(&self, key: &str, value: &Json) -> bool {
        Cell::value_in(&self.written, key) == value || Cell::value_in(&self.resolved, key) == value
    }
}

/// True if a cell has this value, or comes to it by its default.
pub(super) fn has(cell: &Cell, key: &str, value: &Json) -> bool {
    cell.value(key) == *value || cell.resolved_value(key) == *value
}
