//! The values that the command line and the environment lay over a spec.

use super::error::SpecError;

/// Values that are laid over those of a spec's file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    flags: Vec<Flag>,
    data: Option<String>,
    variables: Vec<(String, String)>,
    settings: Vec<String>,
    vary: Vec<String>,
    keep: Vec<String>,
}

/// An option of the command line that stands for a key of the cell.
#[derive(Debug, Clone)]
pub(super) struct Flag {
    /// The option, such as `--gpu`.
    pub option: &'static str,
    /// The key.
    pub key: &'static str,
    /// The text that it is given.
    pub value: String,
}

/// The beginning of every variable that names a key.
pub(super) const PREFIX: &str = "EXPCTL_";

impl Overrides {
    /// `variables` are names and values of environment variables, of which those that begin with `EXPCTL_` count;
    /// `settings` are `key=value` texts, later ones above earlier ones.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, settings: Vec<String>) -> Self {
        let mut variables: Vec<_> = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect();
        variables.sort_unstable();
        Self {
            variables,
            settings,
            ..Self::default()
        }
    }

    /// Adds the options of a search: `KEY` or `KEY=VALUE,...` for each key that may change, and lists of keys that
    /// stay.
    #[must_use]
    pub fn with_search(self, vary: Vec<String>, keep: Vec<String>) -> Self {
        Self { vary, keep, ..self }
    }

    /// Adds options that stand for keys. They lie below all others.
    #[must_use]
    pub(super) fn with_flags(self, flags: Vec<Flag>) -> Self {
        Self { flags, ..self }
    }

    pub(super) fn flags(&self) -> &[Flag] {
        &self.flags
    }

    /// Adds the option `--data`: a word, a path or a name of the hub. It lies below all others.
    #[must_use]
    pub fn with_data(self, data: Option<String>) -> Self {
        Self { data, ..self }
    }

    pub(super) fn data(&self) -> Option<&str> {
        self.data.as_deref()
    }

    pub(super) fn vary(&self) -> &[String] {
        &self.vary
    }

    pub(super) fn keep(&self) -> &[String] {
        &self.keep
    }

    pub(super) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// True if a `key=value` text or a variable sets this key of a cell, one without dots.
    pub(super) fn sets(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The text that a key is set to, if it is: the last setting, or the variable.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        let settings = self.settings.iter().rev().filter_map(|setting| setting.split_once('='));
        let mut settings = settings
            .filter(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim());
        let variable = format!("{PREFIX}{key}");
        let of_variable = self
            .variables
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&variable));
        settings.next().or(of_variable.map(|(_, value)| value.as_str()))
    }

    pub(super) fn settings(&self) -> &[String] {
        &self.settings
    }

    /// The process's environment, and `settings` above it.
    ///
    /// # Errors
    /// An `EXPCTL_` variable that is not UTF-8.
    pub fn from_environment(settings: Vec<String>) -> Result<Self, SpecError> {
        let mut variables = Vec::new();
        for (name, value) in std::env::vars_os() {
            let (name, value) = match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => (name, value),
                (Ok(name), Err(_)) if name.starts_with(PREFIX) => {
                    return Err(SpecError::without_place(format!(
                        "the environment variable {name} is not UTF-8"
                    )));
                }
                _ => continue,
            };
            variables.push((name, value));
        }
        Ok(Self::new(variables, settings))
    }
}
