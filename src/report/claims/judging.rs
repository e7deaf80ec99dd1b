//! A claim's expressions over the groups that it is about.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Error, Expression, UndefinedBehavior, Value};

use super::scope::{NOT_MEASURED, Scope};
use super::{Posed, functions};
use crate::spec::{self, SpecError};
use crate::text::quoted;

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Errors then carry the place in the expression.
    environment.set_debug(true);
    environment
}

/// The names of rows in expressions, as in templates.
const ROWS: [&str; 2] = ["groups", "cells"];

/// What a claim's expressions give.
pub struct Evaluated {
    /// The values that could be computed, by name.
    pub values: IndexMap<String, Value>,
    /// None where something that the condition needs was not measured.
    pub holds: Option<bool>,
}

/// # Errors
/// An expression that is wrong, with its place in the spec.
pub fn evaluate(posed: &Posed, scope: &Scope) -> Result<Evaluated, SpecError> {
    let mut environment = environment();
    functions::add(&mut environment, scope);
    let mut judging = Judging {
        posed,
        environment: &environment,
        scope,
        known: IndexMap::new(),
    };
    for (name, measure) in &posed.claim.measured {
        let key = format!("measured.{name}.value");
        if let Some(value) = judging.evaluate(&key, &measure.value)? {
            judging.known.insert(name.clone(), value);
        }
    }
    let holds = judging.holds()?;
    Ok(Evaluated {
        values: judging.known,
        holds,
    })
}

/// Whether a claim's condition holds for these values.
///
/// # Errors
/// An expression that is wrong, with its place in the spec.
pub fn holds_with(posed: &Posed, scope: &Scope, values: IndexMap<String, Value>) -> Result<Option<bool>, SpecError> {
    let mut environment = environment();
    functions::add(&mut environment, scope);
    let judging = Judging {
        posed,
        environment: &environment,
        scope,
        known: values,
    };
    judging.holds()
}

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
        Err(self.posed.wrong("holds", message))
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
                let message = format!("{} is no name that expressions of this claim have", quoted(&name));
                return Err(self.posed.point(key, text, find(text, &name), message, Some(help)));
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
                let message = format!("{} is not computed before this value", quoted(name));
                Err(self.posed.point(key, text, find(text, name), message, None))
            }
            _ => Ok(true),
        }
    }

    fn explain(&self, key: &str, text: &str, error: &Error) -> SpecError {
        let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        let range = error
            .range()
            .filter(|range| !range.is_empty() && range.end <= text.len());
        self.posed.point(key, text, range, detail, self.scope.take_help())
    }
}

impl Posed {
    /// An error in one of the claim's keys.
    pub fn wrong(&self, key: &str, message: String) -> SpecError {
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
        let message = format!("claims[{}].{key}: {message}", self.index);
        self.claim.origin.error_in(key, text, range, message, help)
    }
}

/// Where a name stands in an expression.
fn find(text: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |at: &usize| !text[..*at].ends_with(of_name) && !text[at + name.len()..].starts_with(of_name);
    let at = text.match_indices(name).map(|(at, _)| at).find(whole)?;
    Some(at..at + name.len())
}
