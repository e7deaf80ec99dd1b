//! A claim's expressions over the groups that it is about.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::Serde;

use super::bound::BoundClaim;
use super::functions;
use super::scope::{NOT_MEASURED, Scope};
use crate::expression::{Expression, Language, condition, place_of};
use crate::spec::SpecError;
use crate::text::{Mistake, quoted, suggestion};

/// The names of rows in expressions, as in templates.
const ROWS: [&str; 2] = ["groups", "cells"];

/// The values of a claim's expressions.
pub(crate) struct Evaluation {
    /// The values that could be computed, by name.
    pub values: IndexMap<String, Value>,
    /// The truth of the condition; `None` if a measurement that it needs is missing.
    pub holds: Option<bool>,
}

/// Computes a claim's values in their order, and then its condition.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn evaluate(claim: &BoundClaim, scope: &Scope) -> Result<Evaluation, SpecError> {
    let language = language(claim, scope);
    let mut evaluator = Evaluator {
        claim,
        language: &language,
        scope,
        values: IndexMap::new(),
    };
    for (name, measure) in &claim.claim.measured {
        let key = format!("measured.{name}.value");
        let value = evaluator.value(&key, &measure.value, Some(name))?;
        evaluator.values.extend(value.map(|value| (name.clone(), value)));
    }
    let holds = evaluator.holds()?;
    Ok(Evaluation {
        values: evaluator.values,
        holds,
    })
}

/// The truth of a claim's condition for these values.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn holds_with(
    claim: &BoundClaim,
    scope: &Scope,
    values: IndexMap<String, Value>,
) -> Result<Option<bool>, SpecError> {
    let language = language(claim, scope);
    let evaluator = Evaluator {
        claim,
        language: &language,
        scope,
        values,
    };
    evaluator.holds()
}

/// Expressions over the functions, the rows, and the claim's own values.
fn language(claim: &BoundClaim, scope: &Scope) -> Language {
    let measured = claim.claim.measured.keys().cloned();
    let known = functions::NAMES.into_iter().chain(ROWS).map(str::to_owned);
    let names: Vec<String> = known.chain(measured).collect();
    let mut language = Language::new(move |name| {
        if names.iter().any(|known| known == name) {
            return Ok(());
        }
        let help = suggestion(name, names.iter().map(String::as_str))
            .unwrap_or_else(|| format!("the names here are {}; a text has quotes", names.join(", ")));
        let message = format!("{} is not a name that expressions of this claim have", quoted(name));
        Err(Mistake::new(message).help(help))
    });
    functions::add(language.environment(), scope);
    language
}

struct Evaluator<'e> {
    claim: &'e BoundClaim,
    language: &'e Language,
    scope: &'e Scope,
    /// The values that were computed so far, by name.
    values: IndexMap<String, Value>,
}

impl Evaluator<'_> {
    fn holds(&self) -> Result<Option<bool>, SpecError> {
        let text = &self.claim.claim.holds;
        let Some(value) = self.value("holds", text, None)? else {
            return Ok(None);
        };
        let holds = condition(&value).map_err(|mistake| self.claim.error("holds", text, mistake))?;
        Ok(Some(holds))
    }

    /// The value of the expression `text` at `key`; `None` if a measurement that it needs is missing. `name` is the
    /// name that the value gets.
    fn value(&self, key: &str, text: &str, name: Option<&String>) -> Result<Option<Value>, SpecError> {
        let wrong = |mistake: Mistake| self.claim.error(key, text, mistake);
        let expression = self.language.compile(text).map_err(wrong)?;
        if let Some(later) = name.and_then(|name| self.used_too_early(name, &expression)) {
            let mistake = Mistake::new(format!("{} is not computed before this value", quoted(later)));
            return Err(wrong(mistake.at(place_of(later, text))));
        }
        let mut values = BTreeMap::new();
        let mut complete = true;
        for name in expression.names() {
            if functions::NAMES.contains(&name.as_str()) {
                continue;
            }
            match self.named(name) {
                Some(value) => drop(values.insert(name.as_str(), value)),
                None => complete = false,
            }
        }
        if !complete {
            return Ok(None);
        }
        match expression.value(&Value::from(values)) {
            // A verdict needs all measurements that it names.
            Err(mistake) if mistake.message == NOT_MEASURED => Ok(None),
            Err(mistake) => Err(wrong(mistake)),
            Ok(value) if f64::try_from(value.clone()).is_ok_and(f64::is_nan) => {
                self.scope.miss("the value is not a number".into());
                Ok(None)
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// A value or the rows; `None` if a measurement is missing.
    fn named(&self, name: &str) -> Option<Value> {
        let groups = self.scope.groups();
        match name {
            "groups" => self.scope.read_all().then(|| Value::from(Serde(groups))),
            "cells" => {
                let cells: Vec<_> = groups.iter().flat_map(|group| &group.cells).collect();
                self.scope.read_all().then(|| Value::from(Serde(cells)))
            }
            name => self.values.get(name).cloned(),
        }
    }

    /// A value of the claim that the expression of the value `name` uses, and that is not computed before it.
    fn used_too_early<'x>(&self, name: &str, expression: &'x Expression<'_>) -> Option<&'x str> {
        let measured = &self.claim.claim.measured;
        let place = measured.get_index_of(name);
        let late = |used: &&String| measured.get_index_of(*used).is_some_and(|used| Some(used) >= place);
        expression.names().iter().find(late).map(String::as_str)
    }
}
