//! Claims judged over made-up measurements: what is wrong with an expression is found before hours of training.

use polars_core::prelude::DataFrame;

use super::{judge, posed};
use crate::report::ReportError;
use crate::report::entry::{Entry, entries};
use crate::report::group::groups;
use crate::report::published::measured_columns;
use crate::results::datum::Datum;
use crate::results::frame::{self, Row};
use crate::spec::Study;

/// How many rows are made up at most, all rounds together.
const MOST_ROWS: usize = 4096;

/// Judges a study's claims over cells that all end well, several times with other numbers, since `a and b` leaves `b` out
/// where `a` is false.
///
/// # Errors
/// What is wrong with a claim, with its place in the spec.
pub fn rehearse(study: &Study) -> Result<(), ReportError> {
    if study.claims.is_empty() {
        return Ok(());
    }
    let posed = posed(study);
    let empty = without_records(study)?;
    let rows = entries(&empty)?;
    let columns = measured_columns();
    for round in 0..(MOST_ROWS / rows.len().max(1)).clamp(1, 32) {
        let made_up: Vec<Entry> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| made_up(row, &columns, index + round * rows.len()))
            .collect();
        judge(&posed, &groups(&made_up, &study.axes))?;
    }
    Ok(())
}

fn without_records(study: &Study) -> Result<DataFrame, ReportError> {
    let rows: Vec<Row<'_>> = study
        .cells
        .iter()
        .map(|planned| Row {
            cell_id: &planned.id,
            cell: &planned.cell,
            record: None,
            prediction: None,
        })
        .collect();
    Ok(frame::build(&rows)?)
}

/// A row with numbers above zero that differ from row to row and from column to column.
fn made_up(row: &Entry, columns: &[String], index: usize) -> Entry {
    let mut row = row.clone();
    row.set("status", "ok".into());
    for (position, column) in columns.iter().enumerate() {
        let number = (index * 7919 + position * 104_729) % 1009 + 1;
        row.set(column, Datum::Float(number as f64));
    }
    row
}
