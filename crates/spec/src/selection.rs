//! Values that pick cells of a study by their keys: those of the baseline, of a published figure, of a claim.

use cell::Cell;
use indexmap::IndexMap;
use serde_json::Value as Json;

/// Values by dotted key, as in [`Cell::value`].
pub type Selection = IndexMap<String, Json>;

/// True if a cell has all of these values.
pub(crate) fn holds(selection: &Selection, cell: &Cell) -> bool {
    selection.iter().all(|(key, value)| has(cell, key, value))
}

/// True if a cell has this value, or comes to it by its default.
pub(super) fn has(cell: &Cell, key: &str, value: &Json) -> bool {
    cell.value(key) == *value || cell.resolved_value(key) == *value
}
