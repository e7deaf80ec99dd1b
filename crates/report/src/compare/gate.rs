//! `--fail-if`: conditions on the ratios of B to A that no pair may meet.

use std::collections::BTreeMap;
use std::fmt;

use base::text::Mistake;
use expression::{Expression, Language};
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;

use super::matching::Comparison;
use super::pair::MatchedPair;
use crate::columns::check_measured;
use crate::entry::Entry;

/// A condition such as `allocated_peak_bytes > 1.02`, in which a column stands for its ratio.
pub struct Gate<'l> {
    text: String,
    expression: Expression<'l>,
}

/// A cell of A that fails a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedPair {
    /// The condition's text.
    pub condition: String,
    /// The id of the cell in A.
    pub cell: String,
    /// The columns of the condition with their ratios; `None` if there is none.
    pub ratios: BTreeMap<String, Option<f64>>,
    /// The reason.
    pub why: Why,
}

/// The reason why a cell fails a gate. What cannot be judged does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The condition holds.
    Holds,
    /// B lacks a figure that A has, or the whole cell: one that fails or no longer fits is not an improvement.
    MissingInB,
    /// A has no record of a cell that B measured: the baseline is damaged.
    MissingInA,
    /// A figure is negative, which no ratio tells from a smaller one.
    Negative,
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

    /// The cells that fail; `None` if no cell of A has all columns of the condition. Cells that A tried without a result,
    /// or that neither has run, are not judged.
    ///
    /// # Errors
    /// The condition cannot be computed for a pair.
    pub fn failed(&self, comparison: &Comparison<'_>) -> Result<Option<Vec<FailedPair>>, GateError> {
        let has_all = |cell: &Entry| self.columns().all(|column| cell.number(column).is_some());
        let pairs = comparison.pairs.iter().map(|pair| (pair.a, Some(pair)));
        let cells = pairs.chain(comparison.only_in_a.iter().map(|cell| (*cell, None)));
        let (mut failed, mut judged) = (Vec::new(), 0);
        for (cell, pair) in cells {
            let why = match pair {
                Some(pair) if cell.text("status").is_none() && has_all(pair.b) => Some(Why::MissingInA),
                _ if !has_all(cell) => continue,
                None => Some(Why::MissingInB),
                Some(pair) => self.fails(pair)?,
            };
            judged += usize::from(why != Some(Why::MissingInA));
            let ratio = |column: &str| pair.and_then(|pair| pair.ratio(column));
            failed.extend(why.map(|why| {
                FailedPair {
                    condition: self.text.clone(),
                    cell: cell.text("cell_id").unwrap_or_default().to_owned(),
                    ratios: self
                        .columns()
                        .map(|column| (column.to_owned(), ratio(column)))
                        .collect(),
                    why,
                }
            }));
        }
        Ok((judged > 0 || !failed.is_empty()).then_some(failed))
    }

    fn fails(&self, pair: &MatchedPair<'_>) -> Result<Option<Why>, GateError> {
        let mut ratios = BTreeMap::new();
        for column in self.expression.names() {
            let of = |cell: &Entry| cell.number(column);
            let (Some(a), Some(b), Some(ratio)) = (of(pair.a), of(pair.b), pair.ratio(column)) else {
                return Ok(Some(Why::MissingInB));
            };
            if a != b && (a < 0.0 || b < 0.0) {
                return Ok(Some(Why::Negative));
            }
            // No comparison with a NaN holds.
            if ratio.is_nan() {
                return Ok(Some(Why::MissingInB));
            }
            ratios.insert(column, ratio);
        }
        let holds = self.expression.holds(&Value::from(Serde(ratios)));
        let holds = holds.map_err(|mistake| wrong(&self.text, mistake))?;
        Ok(holds.then_some(Why::Holds))
    }
}

fn wrong(text: &str, mistake: Mistake) -> GateError {
    GateError {
        text: text.to_owned(),
        mistake,
    }
}
