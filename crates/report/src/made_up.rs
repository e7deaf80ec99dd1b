//! Made-up figures, over which the expressions of a spec are tried.

use results::columns::PREDICTED;
use results::datum::Datum;
use results::frame;
use spec::Study;

use super::columns::{measured_columns, predicted_columns};
use super::entry::{Entry, entries};
use super::error::ReportError;
use super::group::{Group, groups};

/// The most made-up rows of all rounds together.
const MAX_ROWS: usize = 4096;
/// The most rounds.
const MAX_ROUNDS: usize = 32;

/// A study's groups, whose cells all end well or are planned. There are several rounds with other numbers, because
/// `a and b` skips `b` if `a` is false.
///
/// # Errors
/// The study's frame cannot be made.
pub(crate) fn rounds(study: &Study) -> Result<impl Iterator<Item = Vec<Group>>, ReportError> {
    let rows = entries(&frame::of_plan(study, std::iter::repeat(None))?)?;
    let columns = (measured_columns(), predicted_columns());
    let count = (MAX_ROWS / rows.len().max(1)).clamp(1, MAX_ROUNDS);
    Ok((0..count).map(move |round| {
        let rows = rows.iter().enumerate();
        let rows: Vec<Entry> = rows
            .clone()
            .map(|(index, row)| made_up(row, (&columns.0, &columns.1), index + round * rows.len()))
            .collect();
        groups(&rows, &study.axes)
    }))
}

/// A row with positive numbers that differ by row and by column: the figures that its stack has.
fn made_up(row: &Entry, (measured, predicted): (&[String], &[String]), index: usize) -> Entry {
    let mut row = row.clone();
    let is_planned = row.engine().is_none();
    row.set("status", if is_planned { "planned" } else { "ok" }.into());
    if is_planned {
        let fits = index.is_multiple_of(2);
        row.set("predicted_verdict", if fits { "fits" } else { "oversize" }.into());
    }
    let (columns, prefix) = if is_planned {
        (predicted, PREDICTED)
    } else {
        (measured, "")
    };
    for (position, column) in columns.iter().enumerate() {
        let number = (index * 7919 + position * 104_729) % 1009 + 1;
        row.set(&format!("{prefix}{column}"), Datum::Float(number as f64));
    }
    row
}
