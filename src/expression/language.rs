//! Kinds of expressions.

use std::ops::Range;

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

use super::Expression;
use crate::text::Mistake;

/// Accepts a known name.
type CheckName = dyn Fn(&str) -> Result<(), Mistake>;

/// One kind of expression: its functions, and the names that it knows.
pub struct Language {
    environment: Environment<'static>,
    check_name: Box<CheckName>,
}

impl Language {
    /// A language in which a name is known if `check_name` accepts it.
    pub fn new(check_name: impl Fn(&str) -> Result<(), Mistake> + 'static) -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Errors then carry their place in the expression.
        environment.set_debug(true);
        Self {
            environment,
            check_name: Box::new(check_name),
        }
    }

    /// The environment, for adding functions.
    pub fn environment(&mut self) -> &mut Environment<'static> {
        &mut self.environment
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// Wrong syntax, or an unknown name.
    pub fn compile(&self, text: &str) -> Result<Expression<'_>, Mistake> {
        let compiled = self.environment.compile_expression_owned(text.to_owned());
        let expression = Expression::new(compiled.map_err(|error| explain(&error))?);
        for name in expression.names() {
            (self.check_name)(name).map_err(|mistake| mistake.at(place_of(name, text)))?;
        }
        Ok(expression)
    }
}

/// Help that travels with an error of a function.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Help(String);

/// The error of a function that was called with wrong arguments.
pub(crate) fn mistake(message: String, help: Option<String>) -> Error {
    let error = Error::new(ErrorKind::InvalidOperation, message);
    match help {
        Some(help) => error.with_source(Help(help)),
        None => error,
    }
}

/// An error of minijinja in our words.
pub(super) fn explain(error: &Error) -> Mistake {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let help = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Help>());
    Mistake {
        message,
        help: help.map(|Help(help)| help.clone()),
        range: error.range().filter(|range| !range.is_empty()),
    }
}

/// The first place where a whole word of `text` is `name`.
pub(crate) fn place_of(name: &str, text: &str) -> Option<Range<usize>> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |at: &usize| !text[..*at].ends_with(of_name) && !text[at + name.len()..].starts_with(of_name);
    let at = text.match_indices(name).map(|(at, _)| at).find(whole)?;
    Some(at..at + name.len())
}
