//! `exclude`: expressions over a cell's keys.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Expression, UndefinedBehavior};
use serde_json::{Map, Value};

use super::cell::Cell;
use super::error::Diagnostic;
use super::keys;
use super::sweep::Exclude;
use crate::text::quoted;

/// The compiled expressions.
pub(crate) struct Filter<'e> {
    conditions: Vec<Condition<'e>>,
    /// The keys that they read.
    names: BTreeSet<String>,
}

struct Condition<'e> {
    expression: Expression<'e, 'e>,
    exclude: &'e Exclude,
    /// Whether it has held for a cell.
    used: bool,
}

impl Condition<'_> {
    fn holds(&self, context: &minijinja::Value) -> Result<bool, Diagnostic> {
        let value = self
            .expression
            .eval(context)
            .map_err(|error| wrong(self.exclude, &error))?;
        if value.kind() == ValueKind::Bool {
            return Ok(value.is_true());
        }
        let message = format!(
            "sweep.exclude: the expression gives {}, not true or false",
            quoted(&value.to_string())
        );
        Err(Diagnostic::new(message).at(self.exclude.place))
    }
}

/// minijinja with undefined names as errors.
pub(crate) fn environment<'e>() -> Environment<'e> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

impl<'e> Filter<'e> {
    pub fn compile(environment: &'e Environment<'e>, exclude: &'e [Exclude]) -> Result<Self, Diagnostic> {
        let mut filter = Self {
            conditions: Vec::new(),
            names: BTreeSet::new(),
        };
        for exclude in exclude {
            let compiled = environment.compile_expression(&exclude.text);
            let expression = compiled.map_err(|error| wrong(exclude, &error))?;
            let names = expression.undeclared_variables(false).into_iter().collect();
            check_names(&names, exclude)?;
            filter.names.extend(names);
            filter.conditions.push(Condition {
                expression,
                exclude,
                used: false,
            });
        }
        Ok(filter)
    }

    /// Whether one of the expressions holds for a cell; `keys` are its keys as they are written.
    pub fn excludes(&mut self, cell: &Cell, keys: &Map<String, Value>) -> Result<bool, Diagnostic> {
        if self.conditions.is_empty() {
            return Ok(false);
        }
        let context = minijinja::Value::from(Serde(self.context(cell, keys)));
        let mut excluded = false;
        for condition in &mut self.conditions {
            if condition.holds(&context)? {
                condition.used = true;
                excluded = true;
            }
        }
        Ok(excluded)
    }

    /// Notes on the expressions that have excluded nothing.
    pub fn idle(&self) -> Vec<String> {
        let idle = self.conditions.iter().filter(|condition| !condition.used);
        idle.map(|condition| format!("{} excludes nothing", quoted(&condition.exclude.text)))
            .collect()
    }

    /// The keys that the expressions read, with what left-out ones come to, so that they can be compared.
    fn context<'c>(&'c self, cell: &Cell, keys: &Map<String, Value>) -> BTreeMap<&'c str, Value> {
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

fn check_names(names: &BTreeSet<String>, exclude: &Exclude) -> Result<(), Diagnostic> {
    const FUNCTIONS: [&str; 4] = ["range", "dict", "namespace", "debug"];
    let known: Vec<&str> = keys::top_level().chain(FUNCTIONS).collect();
    let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let message = format!("sweep.exclude: {} is no key of a cell", quoted(name));
    let help = keys::suggestion(name, &known).unwrap_or_else(|| "a text has quotes: `dtype == 'int4'`".into());
    Err(Diagnostic::new(message).at(exclude.place).help(help))
}

fn wrong(exclude: &Exclude, error: &minijinja::Error) -> Diagnostic {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    Diagnostic::new(format!(
        "sweep.exclude: {detail} in the expression {}",
        quoted(&exclude.text)
    ))
    .at(exclude.place)
}
