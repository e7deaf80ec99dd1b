//! Mistakes of a cell, and the checks of a single number.

use std::fmt;

use base::text::Mistake;

/// A value that a cell cannot have, alone or together with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The key at fault, such as `dtype` or `target_modules[1]`.
    pub key: Box<str>,
    /// Other keys that the value contradicts.
    pub with: Vec<&'static str>,
    /// True if the key has no effect in the cell, so that leaving it out changes nothing else.
    pub is_idle: bool,
    /// The reason, and what would be right. Its range is a part of the value's text.
    pub mistake: Mistake,
}

impl Invalid {
    pub(super) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(key, Mistake::new(message))
    }

    pub(super) fn of(key: impl Into<String>, mistake: Mistake) -> Self {
        Self {
            key: key.into().into_boxed_str(),
            with: Vec::new(),
            is_idle: false,
            mistake,
        }
    }

    /// A key that has no effect in the cell.
    pub(super) fn idle(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            is_idle: true,
            ..Self::new(key, message)
        }
    }

    pub(super) fn with(mut self, key: &'static str) -> Self {
        self.with.push(key);
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.mistake = self.mistake.help(help);
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.mistake)
    }
}

impl std::error::Error for Invalid {}

/// All values that a cell cannot have: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCell(pub Vec<Invalid>);

impl fmt::Display for InvalidCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join("; "))
    }
}

impl std::error::Error for InvalidCell {}

pub(super) type Checked = Result<(), Invalid>;

pub(super) fn at_least(key: &str, value: usize, least: usize) -> Checked {
    if value >= least {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be at least {least}, got {value}")))
    }
}

pub(super) fn at_most(key: &str, value: usize, most: usize) -> Checked {
    if value <= most {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be at most {most}, got {value}")))
    }
}

pub(super) fn number(key: &str, value: f64, holds: bool, range: &str) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be {range}, got {value}")))
    }
}
