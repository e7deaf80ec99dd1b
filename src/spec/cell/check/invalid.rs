//! Mistakes of a cell, and the checks of a single number.

use std::{fmt, ops::Range};

/// A value that a cell cannot have, alone or together with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The key at fault, such as `dtype` or `target_modules[1]`.
    pub key: String,
    /// Other keys that the value contradicts.
    pub with: Vec<&'static str>,
    /// The mistake.
    pub message: String,
    /// A value that would do.
    pub help: Option<String>,
    /// The bytes of the value's text that are at fault; `None` means all of it.
    pub at: Option<Range<usize>>,
}

impl Invalid {
    pub(super) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            with: Vec::new(),
            message: message.into(),
            help: None,
            at: None,
        }
    }

    pub(super) fn with(mut self, key: &'static str) -> Self {
        self.with.push(key);
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Invalid {}

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
