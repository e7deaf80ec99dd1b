//! `exclude`: expressions over a cell's keys.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Serde;
use serde_json::{Map, Value};

use super::cell::Cell;
use super::diagnostic::Diagnostic;
use super::sweep::Exclude;
use super::{aliases, keys};
use crate::expression::{Expression, Language};
use crate::text::{Mistake, quoted};

/// The compiled expressions.
pub(crate) struct Filter<'e> {
    conditions: Vec<Condition<'e>>,
    /// The keys that they read.
    names: BTreeSet<String>,
}

struct Condition<'e> {
    expression: Expression<'e>,
    exclude: &'e Exclude,
    /// True once it has excluded a cell.
    used: bool,
}

/// Expressions over the keys of a cell.
pub(crate) fn language() -> Language {
    const FUNCTIONS: [&str; 4] = ["range", "dict", "namespace", "debug"];
    let names: Vec<&str> = keys::top_level().chain(FUNCTIONS).collect();
    Language::new(move |name| {
        if names.contains(&name) {
            return Ok(());
        }
        if let Some(moved) = keys::moved(name) {
            return Err(Mistake::new(format!("the key {} has moved", quoted(name))).help(format!("write `{moved}`")));
        }
        let help = aliases::suggestion(name, &names).unwrap_or_else(|| "a text has quotes: `dtype == 'int4'`".into());
        Err(Mistake::new(format!("{} is not a key of a cell", quoted(name))).help(help))
    })
}

impl<'e> Filter<'e> {
    pub(crate) fn compile(language: &'e Language, exclude: &'e [Exclude]) -> Result<Self, Diagnostic> {
        let mut filter = Self {
            conditions: Vec::new(),
            names: BTreeSet::new(),
        };
        for exclude in exclude {
            let expression = language
                .compile(&exclude.text)
                .map_err(|mistake| diagnostic(mistake, exclude))?;
            filter.names.extend(expression.names().iter().cloned());
            filter.conditions.push(Condition {
                expression,
                exclude,
                used: false,
            });
        }
        Ok(filter)
    }

    /// True if one of the expressions holds for a cell; `keys` are its keys as they are written.
    pub(crate) fn excludes(&mut self, cell: &Cell, keys: &Map<String, Value>) -> Result<bool, Diagnostic> {
        if self.conditions.is_empty() {
            return Ok(false);
        }
        let values = minijinja::Value::from(Serde(self.values(cell, keys)));
        let mut excluded = false;
        for condition in &mut self.conditions {
            let holds = condition.expression.holds(&values);
            if holds.map_err(|mistake| diagnostic(mistake, condition.exclude))? {
                condition.used = true;
                excluded = true;
            }
        }
        Ok(excluded)
    }

    /// Notes on the expressions that have excluded nothing.
    pub(crate) fn idle(&self) -> Vec<String> {
        let idle = self.conditions.iter().filter(|condition| !condition.used);
        idle.map(|condition| format!("{} excludes nothing", quoted(&condition.exclude.text)))
            .collect()
    }

    /// The keys that the expressions read. A key that the spec leaves out has the value that its default comes to, so
    /// that it can be compared.
    fn values<'c>(&'c self, cell: &Cell, keys: &Map<String, Value>) -> BTreeMap<&'c str, Value> {
        let value = |name: &String| match name.as_str() {
            "lora_alpha" => Some(cell.lora_alpha().into()),
            "max_steps" => Some(cell.max_steps().into()),
            "weights" => serde_json::to_value(cell.weights()).ok(),
            name => keys.get(name).cloned(),
        };
        self.names
            .iter()
            .filter_map(|name| Some((name.as_str(), value(name)?)))
            .collect()
    }
}

fn diagnostic(mistake: Mistake, exclude: &Exclude) -> Diagnostic {
    let part = mistake
        .range
        .and_then(|range| exclude.place.part(&exclude.text, &range));
    Diagnostic::new(format!("sweep.exclude: {}", mistake.message))
        .at(part.unwrap_or(exclude.place))
        .help_if(mistake.help)
}
