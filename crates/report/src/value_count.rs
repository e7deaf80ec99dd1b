//! Distinct values of a column, counted.

use results::datum::Datum;
use serde::Serialize;

/// A value and the number of cells that have it.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ValueCount {
    /// The value.
    pub value: Datum,
    /// The number of cells.
    pub cells: usize,
}

/// The distinct values in the order of their first cells.
pub(crate) fn counted(values: impl Iterator<Item = Datum>) -> Vec<ValueCount> {
    let mut counted: Vec<ValueCount> = Vec::new();
    for value in values {
        match counted.iter_mut().find(|known| known.value == value) {
            Some(known) => known.cells += 1,
            None => counted.push(ValueCount { value, cells: 1 }),
        }
    }
    counted
}
