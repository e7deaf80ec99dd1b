//! The columns of numbers that published figures, claims and conditions may name.

use base::text::{Mistake, quoted, suggestion};
use results::columns::{Kind, PREDICTED, outcomes, predictions};

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

/// The names of the columns that hold predicted numbers, without their prefix.
pub(crate) fn predicted_columns() -> Vec<String> {
    predictions()
        .into_iter()
        .filter(|column| matches!(column.kind, Kind::Int | Kind::Float))
        .map(|column| column.name.trim_start_matches(PREDICTED).to_owned())
        .collect()
}

/// Makes sure that a column of measured numbers has this name.
///
/// # Errors
/// None has.
pub(crate) fn check_measured(name: &str) -> Result<(), Mistake> {
    let columns = measured_columns();
    if columns.iter().any(|column| column == name) {
        return Ok(());
    }
    let help = suggestion(name, columns.iter().map(String::as_str)).unwrap_or_else(|| COLUMNS_ARE.into());
    let message = format!("{} is not a column of measured numbers", quoted(name));
    Err(Mistake::new(message).help(help))
}

/// Makes sure that plans have a column of numbers of this name.
///
/// # Errors
/// They have not.
pub(crate) fn check_predicted(name: &str) -> Result<(), Mistake> {
    let columns = predicted_columns();
    if columns.iter().any(|column| column == name) {
        return Ok(());
    }
    if measured_columns().iter().any(|column| column == name) {
        let message = format!(
            "{} is measured and not predicted; cells of `stack: torch` are planned",
            quoted(name)
        );
        let help = format!(
            "`cells: {{ stack: candle }}` leaves the planned cells out; plans have {}",
            some_of(&columns, name)
        );
        return Err(Mistake::new(message).help(help));
    }
    let help = suggestion(name, columns.iter().map(String::as_str));
    let message = format!("{} is not a column of predicted numbers", quoted(name));
    Err(Mistake::new(message).help(help.unwrap_or_else(|| format!("plans have {}", some_of(&columns, name)))))
}

/// The most columns that a help lists.
const MOST_LISTED: usize = 6;

/// Some of the columns, those that resemble `name` most, and the number of the others.
fn some_of(columns: &[String], name: &str) -> String {
    let mut columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    columns.sort_by(|a, b| strsim::jaro(b, name).total_cmp(&strsim::jaro(a, name)));
    let listed = columns[..columns.len().min(MOST_LISTED)].join(", ");
    match columns.len().saturating_sub(MOST_LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}
