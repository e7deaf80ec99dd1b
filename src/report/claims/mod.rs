//! Claims, each with its verdict: an expression over the study's groups that holds, or does not, or cannot be told.

mod functions;
mod rehearsal;
mod scope;

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Error, Expression, UndefinedBehavior, Value};
use serde::Serialize;

use super::format::{self, ABSENT};
use super::group::Group;
use crate::spec::{self, Claim, Expected, Measure, SpecError, Study, Unit};
use scope::{NOT_MEASURED, Scope};

pub use rehearsal::rehearse;

/// A claim and the groups that it is about, by their `group_id`; from `study.yaml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Posed {
    /// Its place in the spec, from 0.
    pub index: usize,
    pub claim: Claim,
    pub groups: IndexSet<String>,
}

/// The claims of a study.
pub fn posed(study: &Study) -> Vec<Posed> {
    let posed = |(index, claim): (usize, &Claim)| Posed {
        index,
        claim: claim.clone(),
        groups: study.groups(&claim.cells),
    };
    study.claims.iter().enumerate().map(posed).collect()
}

/// How a claim fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Supported,
    Refuted,
    /// What it needs was not measured: cells did not run, failed, or ran out of memory.
    Untested,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Untested => "untested",
        }
    }
}

/// A claim with its verdict, as templates see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// From 1, in the spec's order.
    pub number: usize,
    pub claim: String,
    pub source: String,
    pub note: Option<String>,
    pub verdict: Verdict,
    /// Whether it is the verdict that the spec expects.
    pub expected: bool,
    /// The expression.
    pub holds: String,
    pub measured: Vec<Shown>,
    /// The ids of the cells that the verdict rests on.
    pub cells: Vec<String>,
    /// Why it is untested.
    pub why: Option<String>,
    /// Where the spec states it.
    pub place: String,
}

/// A value that a verdict rests on, as text with its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub name: String,
    pub text: String,
    /// How it was computed.
    pub value: String,
}

/// Judges every claim by the groups of a study.
///
/// # Errors
/// An expression that is wrong, with its place in the spec.
pub fn judge(posed: &[Posed], groups: &[Group]) -> Result<Vec<Judged>, SpecError> {
    posed.iter().map(|posed| judge_one(posed, groups)).collect()
}

fn judge_one(posed: &Posed, groups: &[Group]) -> Result<Judged, SpecError> {
    let claim = &posed.claim;
    let scope = Scope::new(groups, &posed.groups);
    let mut environment = environment();
    functions::add(&mut environment, &scope);
    let mut judging = Judging {
        posed,
        environment: &environment,
        scope: &scope,
        known: IndexMap::new(),
    };
    let mut measured = Vec::new();
    for (name, measure) in &claim.measured {
        let key = format!("measured.{name}.value");
        let value = judging.evaluate(&key, &measure.value)?;
        let text = value
            .as_ref()
            .map_or(Ok(ABSENT.to_owned()), |value| written(value, measure));
        measured.push(Shown {
            name: name.clone(),
            text: text.map_err(|message| judging.wrong(&key, message))?,
            value: measure.value.clone(),
        });
        if let Some(value) = value {
            judging.known.insert(name.clone(), value);
        }
    }
    let verdict = match judging.holds()? {
        None => Verdict::Untested,
        Some(true) => Verdict::Supported,
        Some(false) => Verdict::Refuted,
    };
    Ok(Judged {
        number: posed.index + 1,
        claim: claim.claim.clone(),
        source: claim.source.clone(),
        note: claim.note.clone(),
        verdict,
        expected: match claim.expect {
            Expected::Supported => verdict == Verdict::Supported,
            Expected::Refuted => verdict == Verdict::Refuted,
        },
        holds: claim.holds.clone(),
        measured,
        cells: scope.read_cells(),
        why: (verdict == Verdict::Untested).then(|| scope.missing()).flatten(),
        place: claim.origin.to_string(),
    })
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Errors then carry the place in the expression.
    environment.set_debug(true);
    environment
}

/// The names of rows in expressions, as in templates.
const ROWS: [&str; 2] = ["groups", "cells"];

/// A claim in the middle of being judged.
struct Judging<'j> {
    posed: &'j Posed,
    environment: &'j Environment<'j>,
    scope: &'j Scope,
    /// The values that were computed so far, by name.
    known: IndexMap<String, Value>,
}

impl Judging<'_> {
    fn holds(&self) -> Result<Option<bool>, SpecError> {
        let value = self.evaluate("holds", &self.posed.claim.holds)?;
        let Some(value) = value else {
            return Ok(None);
        };
        if value.kind() == ValueKind::Bool {
            return Ok(Some(value.is_true()));
        }
        let message = format!("the expression gives a {}, not true or false", value.kind());
        Err(self.wrong("holds", message))
    }

    /// The value of an expression; none where something that it needs was not measured.
    fn evaluate(&self, key: &str, text: &str) -> Result<Option<Value>, SpecError> {
        let compiled = self.environment.compile_expression(text);
        let expression = compiled.map_err(|error| self.explain(key, text, &error))?;
        if !self.names_are_known(key, text, &expression)? {
            return Ok(None);
        }
        match expression.eval(Value::from(self.context(&expression))) {
            // A verdict that holds where nothing was measured would rest on nothing.
            Err(error) if error.detail() == Some(NOT_MEASURED) => Ok(None),
            Err(error) => Err(self.explain(key, text, &error)),
            Ok(value) if f64::try_from(value.clone()).is_ok_and(f64::is_nan) => {
                self.scope.miss("the value is not a number".into());
                Ok(None)
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// What an expression sees beside the functions: the values before it, and the rows if it asks for them.
    fn context(&self, expression: &Expression<'_, '_>) -> BTreeMap<String, Value> {
        let groups = self.scope.groups();
        let value = |name: String| {
            let value = match name.as_str() {
                "groups" => Value::from(Serde(groups)),
                "cells" => Value::from(Serde(groups.iter().flat_map(|group| &group.cells).collect::<Vec<_>>())),
                name => self.known.get(name)?.clone(),
            };
            Some((name, value))
        };
        expression
            .undeclared_variables(false)
            .into_iter()
            .filter_map(value)
            .collect()
    }

    /// Whether the names in an expression have values. An unknown one is an error; one whose value could not be computed
    /// is none, and neither are the rows where cells are missing.
    fn names_are_known(&self, key: &str, text: &str, expression: &Expression<'_, '_>) -> Result<bool, SpecError> {
        let mut known = true;
        for name in expression.undeclared_variables(false) {
            if ROWS.contains(&name.as_str()) {
                known &= self.scope.read_all();
            } else if self.posed.claim.measured.contains_key(&name) {
                known &= self.is_before(key, &name, text)? && self.known.contains_key(&name);
            } else if !functions::NAMES.contains(&name.as_str()) {
                let measured = self.posed.claim.measured.keys().map(String::as_str);
                let names: Vec<&str> = functions::NAMES.into_iter().chain(ROWS).chain(measured).collect();
                let help = spec::suggestion(&name, &names)
                    .unwrap_or_else(|| format!("the names here are {}; a text has quotes", names.join(", ")));
                let message = format!("{} is no name that expressions of this claim have", spec::quoted(&name));
                return Err(self.point(key, text, find(text, &name), message, Some(help)));
            }
        }
        Ok(known)
    }

    /// Makes sure that a value is computed before it is used.
    fn is_before(&self, key: &str, name: &str, text: &str) -> Result<bool, SpecError> {
        let measured = &self.posed.claim.measured;
        let at = |name: &str| measured.get_index_of(name);
        let user = key.strip_prefix("measured.").and_then(|key| key.strip_suffix(".value"));
        match user.and_then(at) {
            Some(user) if at(name) >= Some(user) => {
                let message = format!("{} is not computed before this value", spec::quoted(name));
                Err(self.point(key, text, find(text, name), message, None))
            }
            _ => Ok(true),
        }
    }

    fn explain(&self, key: &str, text: &str, error: &Error) -> SpecError {
        let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        let range = error
            .range()
            .filter(|range| !range.is_empty() && range.end <= text.len());
        self.point(key, text, range, detail, self.scope.take_help())
    }

    fn wrong(&self, key: &str, message: String) -> SpecError {
        self.point(key, "", None, message, None)
    }

    fn point(
        &self,
        key: &str,
        text: &str,
        range: Option<std::ops::Range<usize>>,
        message: String,
        help: Option<String>,
    ) -> SpecError {
        let message = format!("claims[{}].{key}: {message}", self.posed.index);
        self.posed.claim.origin.error_in(key, text, range, message, help)
    }
}

/// Where a name stands in an expression.
fn find(text: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |at: &usize| !text[..*at].ends_with(of_name) && !text[at + name.len()..].starts_with(of_name);
    let at = text.match_indices(name).map(|(at, _)| at).find(whole)?;
    Some(at..at + name.len())
}

/// A value with its unit, as people read it; the message says why it is none.
fn written(value: &Value, measure: &Measure) -> Result<String, String> {
    let number = |value: &Value| {
        let number = f64::try_from(value.clone()).ok()?;
        let decimals = measure.decimals.unwrap_or_else(|| decimals(number, measure.unit));
        Some(format::in_unit(number.into(), measure.unit, decimals))
    };
    let suffix = measure.unit.suffix();
    match value.kind() {
        ValueKind::Number => number(value).map(|text| text + &suffix),
        ValueKind::Bool => Some(value.to_string()),
        ValueKind::String if measure.unit == Unit::Plain => Some(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .ok()
            .and_then(|items| items.map(|item| number(&item)).collect::<Option<Vec<_>>>())
            .map(|items| items.join(" · ") + &suffix),
        _ => None,
    }
    .ok_or_else(|| {
        let value = spec::quoted(&value.to_string());
        format!(
            "the expression gives {value}, and {} is the unit of numbers",
            spec::quoted(measure.unit.name())
        )
    })
}

/// A whole number has no decimals where no unit asks for them.
fn decimals(number: f64, unit: Unit) -> usize {
    if unit == Unit::Plain && number.fract() == 0.0 {
        0
    } else {
        unit.decimals()
    }
}
