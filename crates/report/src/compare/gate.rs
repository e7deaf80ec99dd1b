//! `--fail-if`: conditions on the ratios of B to A that no pair may meet.

use std::collections::BTreeMap;
use std::fmt;

use base::text::Mistake;
use expression::{Expression, Language};
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;

use super::pair::MatchedPair;
use crate::columns::check_measured;

/// A condition such as `allocated_peak_bytes > 1.02`, in which a column stands for its ratio.
pub struct Gate<'l> {
    text: String,
    expression: Expression<'l>,
}

/// A pair that fails a gate: its condition holds, or B lacks a figure that A has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedPair {
    /// The condition's text.
    pub condition: String,
    /// The id of the cell in A.
    pub cell: String,
    /// The columns of the condition with their ratios; `None` if B has no value.
    pub ratios: BTreeMap<String, Option<f64>>,
}

/// A mistake in a condition, shown with a caret.
#[derive(Debug)]
pub struct GateError {
    text: String,
    mistake: Mistake,
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistake.shown_in("--fail-if", &self.text))
    }
}

impl std::error::Error for GateError {}

/// An example for help.
const EXAMPLE: &str = "for example `allocated_peak_bytes > 1.02`";

impl<'l> Gate<'l> {
    /// Expressions over the columns of measured numbers.
    pub fn language() -> Language {
        Language::new(check_measured)
    }

    /// Reads a condition.
    ///
    /// # Errors
    /// It is not an expression, names anything but measured columns, or gives neither true nor false.
    pub fn parse(language: &'l Language, text: &str) -> Result<Self, GateError> {
        let expression = language
            .compile(text)
            .map_err(|mistake| wrong(text, mistake.help(EXAMPLE)))?;
        if expression.names().is_empty() {
            let mistake = Mistake::new("the condition names no column").help(format!("{EXAMPLE}: B over A"));
            return Err(wrong(text, mistake));
        }
        // Any ratio shows the kind of the result.
        let ones: BTreeMap<&String, f64> = expression.names().iter().map(|column| (column, 1.0)).collect();
        expression
            .holds(&Value::from(Serde(ones)))
            .map_err(|mistake| wrong(text, mistake))?;
        Ok(Self {
            text: text.to_owned(),
            expression,
        })
    }

    /// The condition as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The columns that it reads.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.expression.names().iter().map(String::as_str)
    }

    /// The pairs that fail; `None` if no cell of A has all columns of the condition. A pair also fails if A has a
    /// figure that B lacks: a cell that fails or no longer fits is not an improvement.
    ///
    /// # Errors
    /// The condition cannot be computed for a pair.
    pub fn failed(&self, pairs: &[MatchedPair<'_>]) -> Result<Option<Vec<FailedPair>>, GateError> {
        let has_all = |pair: &&MatchedPair<'_>| self.columns().all(|column| pair.a.number(column).is_some());
        let mut failed = Vec::new();
        let mut judged = 0;
        for pair in pairs.iter().filter(has_all) {
            judged += 1;
            let ratios: BTreeMap<String, Option<f64>> = self
                .columns()
                .map(|column| (column.to_owned(), pair.ratio(column)))
                .collect();
            if self.fails(&ratios)? {
                failed.push(FailedPair {
                    condition: self.text.clone(),
                    cell: pair.a.text("cell_id").unwrap_or_default().to_owned(),
                    ratios,
                });
            }
        }
        Ok((judged > 0).then_some(failed))
    }

    fn fails(&self, ratios: &BTreeMap<String, Option<f64>>) -> Result<bool, GateError> {
        let known: Option<BTreeMap<&String, f64>> =
            ratios.iter().map(|(column, ratio)| Some((column, (*ratio)?))).collect();
        // A NaN counts as missing: no comparison with it holds.
        let Some(known) = known.filter(|known| known.values().all(|ratio| !ratio.is_nan())) else {
            return Ok(true);
        };
        let holds = self.expression.holds(&Value::from(Serde(known)));
        holds.map_err(|mistake| wrong(&self.text, mistake))
    }
}

fn wrong(text: &str, mistake: Mistake) -> GateError {
    GateError {
        text: text.to_owned(),
        mistake,
    }
}
