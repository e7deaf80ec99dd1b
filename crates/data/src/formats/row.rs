//! A row of a data file, and what every format says of one.

use base::text::suggestion;
use serde_json::{Map, Value};

use super::place::Place;
use crate::DataError;

/// The longest sample in MiB. A longer one would have over a million tokens: it is a wrong file.
pub(crate) const LONGEST_SAMPLE_MIB: usize = 16;

/// The longest sample in bytes.
pub(crate) const LONGEST_SAMPLE: usize = LONGEST_SAMPLE_MIB << 20;

/// The only column of a text file.
pub(crate) const TEXT_COLUMN: &str = "text";

/// A row of a file, with the columns that were asked for at least.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub place: Place,
    pub values: Map<String, Value>,
}

/// The callback of a file's reader: takes each row, and returns false to stop.
pub(super) type EachRow<'a> = dyn FnMut(Row) -> Result<bool, DataError> + 'a;

/// The callback of a reader of objects: returns false to stop.
pub(super) type EachObject<'a> = dyn FnMut(Place, Map<String, Value>) -> Result<bool, DataError> + 'a;

/// The error of a column that is not among `names`.
pub(crate) fn missing<'a>(place: String, column: &str, names: impl Iterator<Item = &'a str>) -> DataError {
    let names: Vec<&str> = names.collect();
    DataError::MissingColumn {
        place,
        column: column.into(),
        meant: suggestion(column, names.iter().copied()).map_or_else(String::new, |meant| format!("; {meant}")),
        columns: names.join(", "),
    }
}

/// The kind of a value, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
