//! The columns of measured numbers: what published figures, claims and conditions may name.

use crate::results::columns::{Kind, outcomes};
use crate::text::{Mistake, quoted, suggestion};

/// Help for a name that resembles no column.
pub(crate) const COLUMNS_ARE: &str = "the columns are those of a study's cells.csv, such as `allocated_peak_bytes`";

/// The names of the columns that hold measured numbers.
pub(crate) fn measured_columns() -> Vec<String> {
    outcomes()
        .into_iter()
        .filter(|outcome| matches!(outcome.kind, Kind::Int | Kind::Float))
        .map(|outcome| outcome.name)
        .collect()
}

/// Makes sure that a column of measured numbers has this name.
///
/// # Errors
/// None has.
pub(crate) fn check_column(name: &str) -> Result<(), Mistake> {
    let columns = measured_columns();
    if columns.iter().any(|column| column == name) {
        return Ok(());
    }
    let help = suggestion(name, columns.iter().map(String::as_str)).unwrap_or_else(|| COLUMNS_ARE.into());
    let message = format!("{} is not a column of measured numbers", quoted(name));
    Err(Mistake::new(message).help(help))
}
