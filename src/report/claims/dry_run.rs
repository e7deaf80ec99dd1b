//! A dry run of claims over made-up figures, so that a wrong expression is found before hours of training.

use super::bases::bases;
use super::basis::Purpose;
use super::bound::{BoundClaim, bind};
use super::judge::judge;
use crate::options::Stack;
use crate::report::columns::{measured_columns, predicted_columns};
use crate::report::entry::{Entry, entries};
use crate::report::error::ReportError;
use crate::report::group::{Group, groups};
use crate::results::columns::PREDICTED;
use crate::results::datum::Datum;
use crate::results::frame;
use crate::spec::{SpecError, Study};
use crate::text::Mistake;

/// The most made-up rows of all rounds together.
const MAX_ROWS: usize = 4096;
/// The most rounds.
const MAX_ROUNDS: usize = 32;

/// Judges a study's claims over cells that all end well or are planned. It does so several times with other numbers,
/// because `a and b` skips `b` if `a` is false.
///
/// # Errors
/// A mistake in a claim, with its place in the spec.
pub(crate) fn dry_run(study: &Study) -> Result<(), ReportError> {
    if study.claims.is_empty() {
        return Ok(());
    }
    let claims = bind(study);
    let rows = entries(&frame::of_plan(study, std::iter::repeat(None))?)?;
    let columns = (measured_columns(), predicted_columns());
    for round in 0..(MAX_ROWS / rows.len().max(1)).clamp(1, MAX_ROUNDS) {
        let made_up: Vec<Entry> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| made_up(row, (&columns.0, &columns.1), index + round * rows.len()))
            .collect();
        let groups = groups(&made_up, &study.axes);
        if round == 0 {
            claims.iter().try_for_each(|claim| check_expectation(claim, &groups))?;
        }
        judge(&claims, &groups, Purpose::DryRun)?;
    }
    Ok(())
}

/// A row with positive numbers that differ by row and by column: the figures that its stack has.
fn made_up(row: &Entry, (measured, predicted): (&[String], &[String]), index: usize) -> Entry {
    let mut row = row.clone();
    let is_torch = row.stack() == Stack::Torch;
    row.set("status", if is_torch { "planned" } else { "ok" }.into());
    if is_torch {
        let fits = index.is_multiple_of(2);
        row.set("predicted_verdict", if fits { "fits" } else { "oversize" }.into());
    }
    let (columns, prefix) = if is_torch {
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

/// Makes sure that the claim has cells of the stacks for which it expects a verdict.
fn check_expectation(claim: &BoundClaim, groups: &[Group]) -> Result<(), SpecError> {
    let bases = bases(claim, groups, false);
    for stack in claim.claim.expect.stacks() {
        if bases.iter().all(|basis| basis.stack != Some(stack)) {
            let name = stack.name();
            let mistake = Mistake::new(format!("the claim is not judged on `stack: {name}`"))
                .help("a claim is judged on the stacks of its `cells` that its expressions read");
            return Err(claim.error(&format!("expect.{name}"), "", mistake));
        }
    }
    Ok(())
}
