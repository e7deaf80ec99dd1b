//! A claim's expressions over the groups that it is about.

use std::collections::BTreeMap;

use base::text::{Mistake, quoted, suggestion};
use expression::{Expression, Language, condition, place_of};
use indexmap::IndexMap;
use minijinja::Value;
use spec::SpecError;

use super::bound::BoundClaim;
use super::functions;
use super::result::ClaimVerdict;
use super::scope::{MISSING, Scope};

/// The values of a claim's expressions.
pub(super) struct Evaluation {
    /// The values that could be computed, by name.
    pub values: IndexMap<String, Value>,
    /// The verdict by these values; `None` if a figure that it needs is missing.
    pub verdict: Option<ClaimVerdict>,
}

/// Computes a claim's values in their order, and then its condition.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(super) fn evaluate(claim: &BoundClaim, scope: &Scope) -> Result<Evaluation, SpecError> {
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
    let verdict = evaluator.verdict()?;
    Ok(Evaluation {
        values: evaluator.values,
        verdict,
    })
}

/// The verdict on a claim for these values.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(super) fn verdict_with(
    claim: &BoundClaim,
    scope: &Scope,
    values: IndexMap<String, Value>,
) -> Result<Option<ClaimVerdict>, SpecError> {
    let language = language(claim, scope);
    let evaluator = Evaluator {
        claim,
        language: &language,
        scope,
        values,
    };
    evaluator.verdict()
}

/// Expressions over the functions, the rows, and the claim's own values.
fn language(claim: &BoundClaim, scope: &Scope) -> Language {
    let measured = claim.claim.measured.keys().cloned();
    let known = functions::NAMES.into_iter().chain(functions::ROWS).map(str::to_owned);
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
    /// The verdict by the conditions. `exceeds` decides if `holds` is false.
    fn verdict(&self) -> Result<Option<ClaimVerdict>, SpecError> {
        let claim = &self.claim.claim;
        let Some(holds) = self.condition("holds", claim.holds.as_deref())? else {
            return Ok(None);
        };
        // It is evaluated in any case, so that a dry run finds its mistakes.
        let exceeds = self.condition("exceeds", claim.exceeds.as_deref())?;
        Ok(match exceeds {
            _ if holds => Some(ClaimVerdict::Supported),
            Some(true) => Some(ClaimVerdict::Exceeded),
            None if claim.exceeds.is_some() => None,
            _ => Some(ClaimVerdict::Refuted),
        })
    }

    /// The truth of the condition at `key`; `None` if there is none, or a figure that it needs is missing.
    fn condition(&self, key: &str, text: Option<&str>) -> Result<Option<bool>, SpecError> {
        let Some(text) = text else { return Ok(None) };
        let value = self.value(key, text, None)?;
        let truth = value.map(|value| condition(&value)).transpose();
        truth.map_err(|mistake| self.claim.error(key, text, mistake))
    }

    /// The value of the expression `text` at `key`; `None` if a figure that it needs is missing. `name` is the
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
            // A verdict needs all figures that it names.
            Err(mistake) if mistake.message == MISSING => Ok(None),
            Err(mistake) if self.scope.is_strict() => Err(wrong(mistake)),
            Err(mistake) => {
                self.scope.miss(mistake.message);
                Ok(None)
            }
            Ok(value) if f64::try_from(value.clone()).is_ok_and(f64::is_nan) => {
                self.scope.miss("the value is not a number".into());
                Ok(None)
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// A value or the rows; `None` if a figure is missing.
    fn named(&self, name: &str) -> Option<Value> {
        match functions::ROWS.contains(&name) {
            true => self.scope.rows(name),
            false => self.values.get(name).cloned(),
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
