//! A dry run of claims over made-up measurements, so that a wrong expression is found before hours of training.

use super::bound::bind;
use super::judge::judge;
use crate::report::entry::{Entry, entries};
use crate::report::error::ReportError;
use crate::report::group::groups;
use crate::report::measured::measured_columns;
use crate::results::datum::Datum;
use crate::results::frame;
use crate::spec::Study;

/// The most made-up rows of all rounds together.
const MAX_ROWS: usize = 4096;
/// The most rounds.
const MAX_ROUNDS: usize = 32;

/// Judges a study's claims over cells that all end well. It does so several times with other numbers, because `a and b`
/// skips `b` if `a` is false.
///
/// # Errors
/// A mistake in a claim, with its place in the spec.
pub(crate) fn dry_run(study: &Study) -> Result<(), ReportError> {
    if study.claims.is_empty() {
        return Ok(());
    }
    let claims = bind(study);
    let rows = entries(&frame::of_plan(study, std::iter::repeat(None))?)?;
    let columns = measured_columns();
    for round in 0..(MAX_ROWS / rows.len().max(1)).clamp(1, MAX_ROUNDS) {
        let made_up: Vec<Entry> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| made_up(row, &columns, index + round * rows.len()))
            .collect();
        judge(&claims, &groups(&made_up, &study.axes))?;
    }
    Ok(())
}

/// A row with positive numbers that differ by row and by column.
fn made_up(row: &Entry, columns: &[String], index: usize) -> Entry {
    let mut row = row.clone();
    row.set("status", "ok".into());
    for (position, column) in columns.iter().enumerate() {
        let number = (index * 7919 + position * 104_729) % 1009 + 1;
        row.set(column, Datum::Float(number as f64));
    }
    row
}
