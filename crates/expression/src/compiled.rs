//! A compiled expression and its values.

use std::collections::BTreeSet;
use std::time::Duration;

use base::bounds::{Bounds, bounded};
use base::text::Mistake;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::error::explain;

/// An expression whose names are all known.
pub struct Expression<'l> {
    compiled: minijinja::Expression<'l, 'static>,
    names: BTreeSet<String>,
    text: String,
}

/// What one value may take: a hundred times that of a long expression.
const BOUNDS: Bounds = Bounds {
    bytes: 256 << 20,
    time: Duration::from_secs(5),
};

impl<'l> Expression<'l> {
    pub(super) fn new(compiled: minijinja::Expression<'l, 'static>, text: &str) -> Self {
        let names = compiled.undeclared_variables(false).into_iter().collect();
        Self {
            compiled,
            names,
            text: text.to_owned(),
        }
    }

    /// The names of the values and functions that it uses.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Its value, given a map of the values that it names.
    ///
    /// # Errors
    /// An operation that its operands do not have, or an error of a function.
    pub fn value(&self, values: &Value) -> Result<Value, Mistake> {
        let what = format_args!("the expression `{}`", self.text);
        bounded(what, BOUNDS, || self.compiled.eval(values)).map_err(|error| explain(&error))
    }

    /// Its value as a condition.
    ///
    /// # Errors
    /// Those of [`value`](Self::value), and a value that is neither true nor false.
    pub fn holds(&self, values: &Value) -> Result<bool, Mistake> {
        condition(&self.value(values)?)
    }
}

/// The truth of a value.
///
/// # Errors
/// It is neither true nor false.
pub fn condition(value: &Value) -> Result<bool, Mistake> {
    let kind = match value.kind() {
        ValueKind::Bool => return Ok(value.is_true()),
        kind @ (ValueKind::None | ValueKind::Undefined) => kind.to_string(),
        kind => format!("a {kind}"),
    };
    Err(Mistake::new(format!("the expression gives {kind}, not true or false")))
}
