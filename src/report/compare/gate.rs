//! `--fail-if`: conditions on the ratios of B to A that no pair may fulfil.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use minijinja::value::ValueKind;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;

use super::Pair;
use crate::report::published::{COLUMNS_ARE, measured_columns};
use crate::spec;
use crate::text::quoted;

/// A condition such as `allocated_peak_bytes > 1.02`: a minijinja expression in which a column stands for its ratio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    text: String,
    columns: Vec<String>,
}

/// A pair of which a condition holds, or of which it cannot be told any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Passed {
    pub condition: String,
    /// The id of the cell in A.
    pub cell: String,
    /// The columns of the condition with their ratios; none where B has no value any more.
    pub ratios: BTreeMap<String, Option<f64>>,
}

/// A condition that is wrong, shown with a caret.
#[derive(Debug)]
pub struct GateError {
    text: String,
    range: Range<usize>,
    message: String,
    help: Option<String>,
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snippet = Snippet::source(&self.text)
            .path("--fail-if")
            .annotation(AnnotationKind::Primary.span(self.range.clone()));
        let mut group = Level::ERROR.no_name().primary_title(&self.message).element(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        f.write_str(&Renderer::plain().render(&[group]))
    }
}

impl std::error::Error for GateError {}

impl Gate {
    /// Reads a condition.
    ///
    /// # Errors
    /// It is no expression, names what is no measured column, or gives neither true nor false.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let wrong = |range: Option<Range<usize>>, message: String, help: Option<String>| GateError {
            text: text.to_owned(),
            range: range.filter(|range| range.end <= text.len()).unwrap_or(0..text.len()),
            message,
            help,
        };
        let environment = environment();
        let compiled = environment.compile_expression(text);
        let expression = compiled.map_err(|error| {
            let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
            wrong(
                error.range(),
                detail,
                Some("for example `allocated_peak_bytes > 1.02`".into()),
            )
        })?;
        let columns = measured_columns();
        let mut used: Vec<String> = expression.undeclared_variables(false).into_iter().collect();
        used.sort_unstable();
        if let Some(name) = used.iter().find(|name| !columns.contains(name)) {
            let known: Vec<&str> = columns.iter().map(String::as_str).collect();
            let help = spec::suggestion(name, &known).unwrap_or_else(|| COLUMNS_ARE.into());
            let at = text.find(name.as_str()).map(|at| at..at + name.len());
            let message = format!("{} is no column of numbers that are measured", quoted(name));
            return Err(wrong(at, message, Some(help)));
        }
        if used.is_empty() {
            let help = "for example `allocated_peak_bytes > 1.02`: B over A".to_owned();
            return Err(wrong(None, "the condition names no column".into(), Some(help)));
        }
        let gate = Self {
            text: text.to_owned(),
            columns: used,
        };
        // Any ratios will do to see what kind of value comes out.
        match gate.evaluate(&gate.columns.iter().map(|column| (column.clone(), Some(1.0))).collect()) {
            Ok(_) => Ok(gate),
            Err(message) => Err(wrong(None, message, None)),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The columns that it reads.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The pairs of which the condition holds. What A measured and B did not counts among them: a cell that fails or no
    /// longer fits is no improvement. None where no pair has all that the condition asks for.
    ///
    /// # Errors
    /// The condition cannot be computed for a pair.
    pub fn passed(&self, pairs: &[Pair<'_>]) -> Result<Option<Vec<Passed>>, GateError> {
        let mut passed = Vec::new();
        let mut told = 0;
        for pair in pairs {
            if self.columns.iter().any(|column| pair.a.number(column).is_none()) {
                continue;
            }
            told += 1;
            let ratios: BTreeMap<String, Option<f64>> = self
                .columns
                .iter()
                .map(|column| (column.clone(), pair.ratio(column)))
                .collect();
            let holds = self.evaluate(&ratios).map_err(|message| GateError {
                text: self.text.clone(),
                range: 0..self.text.len(),
                message,
                help: None,
            })?;
            if holds {
                passed.push(Passed {
                    condition: self.text.clone(),
                    cell: pair.a.text("cell_id").unwrap_or_default().to_owned(),
                    ratios,
                });
            }
        }
        Ok((told > 0).then_some(passed))
    }

    fn evaluate(&self, ratios: &BTreeMap<String, Option<f64>>) -> Result<bool, String> {
        let known: Option<BTreeMap<&str, f64>> = ratios
            .iter()
            .map(|(column, ratio)| Some((column.as_str(), (*ratio)?)))
            .collect();
        // Not a number is no better than nothing: no comparison with it holds.
        let Some(known) = known.filter(|known| known.values().all(|ratio| !ratio.is_nan())) else {
            return Ok(true);
        };
        let environment = environment();
        let detail = |error: minijinja::Error| error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        let expression = environment.compile_expression(&self.text).map_err(detail)?;
        let value = expression.eval(Value::from(known)).map_err(detail)?;
        if value.kind() == ValueKind::Bool {
            return Ok(value.is_true());
        }
        Err(format!(
            "the condition gives {}, not true or false",
            quoted(&value.to_string())
        ))
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_debug(true);
    environment
}
