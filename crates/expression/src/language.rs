//! Kinds of expressions.

use base::text::Mistake;
use minijinja::{Environment, UndefinedBehavior};

use super::compiled::Expression;
use super::error::{explain, place_of};

/// Instructions of one expression: more than any that a person writes takes.
const FUEL: u64 = 1_000_000;

/// Bytes of an expression: its operands nest on the stack of its thread.
const LONGEST: usize = 4096;

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
        environment.set_fuel(Some(FUEL));
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
    /// Wrong syntax, an unknown name (the first in the text), or a text that is too long.
    pub fn compile(&self, text: &str) -> Result<Expression<'_>, Mistake> {
        if text.len() > LONGEST {
            let length = text.len();
            return Err(Mistake::new(format!(
                "the expression has {length} bytes, and {LONGEST} is the most"
            )));
        }
        let compiled = self.environment.compile_expression_owned(text.to_owned());
        let expression = Expression::new(compiled.map_err(|error| explain(&error))?, text);
        let names = expression.names().iter();
        let mut placed: Vec<_> = names.map(|name| (place_of(name, text), name)).collect();
        placed.sort_by_key(|(place, _)| place.as_ref().map_or(usize::MAX, |place| place.start));
        for (place, name) in placed {
            (self.check_name)(name).map_err(|mistake| mistake.at(place))?;
        }
        Ok(expression)
    }
}
