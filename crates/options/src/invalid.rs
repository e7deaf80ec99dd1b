//! Values that a cell cannot have, and the checks of a single number.

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
    /// A value that is wrong.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(key, Mistake::new(message))
    }

    /// A value with its mistake.
    pub fn of(key: impl Into<String>, mistake: Mistake) -> Self {
        Self {
            key: key.into().into_boxed_str(),
            with: Vec::new(),
            is_idle: false,
            mistake,
        }
    }

    /// A key that has no effect in the cell.
    pub fn idle(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            is_idle: true,
            ..Self::new(key, message)
        }
    }

    /// Names another key that the value contradicts.
    pub fn with(mut self, key: &'static str) -> Self {
        self.with.push(key);
        self
    }

    /// Says what would be right.
    pub fn help(mut self, help: impl Into<String>) -> Self {
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

/// The result of a check.
pub type Checked = Result<(), Invalid>;

/// Checks a lower limit.
///
/// # Errors
/// If the value is less.
pub fn at_least(key: &str, value: usize, least: usize) -> Checked {
    if value >= least {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be at least {least}, got {value}")))
    }
}

/// Checks an upper limit.
///
/// # Errors
/// If the value is more.
pub fn at_most(key: &str, value: usize, most: usize) -> Checked {
    if value <= most {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be at most {most}, got {value}")))
    }
}

/// Checks that a number is in its range.
///
/// # Errors
/// If it is not, as `holds` says.
pub fn number(key: &str, value: f64, holds: bool, range: &str) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be {range}, got {value}")))
    }
}

/// Checks the rank of an adapter.
///
/// # Errors
/// If it is 0, or more than 65536.
pub fn rank(key: &str, value: usize) -> Checked {
    at_least(key, value, 1).and_then(|()| at_most(key, value, 1 << 16))
}

/// Checks the alpha of an adapter.
///
/// # Errors
/// If it is 0 or less, or more than 1e6.
pub fn alpha(key: &str, value: f64) -> Checked {
    let holds = value > 0.0 && value <= 1e6;
    number(key, value, holds, "more than 0 and at most 1e6")
}

/// Checks a probability of dropout.
///
/// # Errors
/// If it is less than 0, or 1 or more.
pub fn probability(key: &str, value: f64) -> Checked {
    number(key, value, (0.0..1.0).contains(&value), "at least 0 and less than 1")
}
