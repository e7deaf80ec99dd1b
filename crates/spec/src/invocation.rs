//! How a study was asked for, so that its report can say how to make it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::overrides::Overrides;
use super::shell_word::quoted;

/// The command line and the part of the environment that a study came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Invocation {
    /// The spec's path; empty without one.
    pub spec: String,
    /// The arguments that stand in place of a spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The `EXPCTL_` variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// The `key=value` texts of `--set`, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// The study's folder, if it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<String>,
}

impl Invocation {
    pub(super) fn new(spec: String, overrides: &Overrides) -> Self {
        Self {
            spec,
            names: Vec::new(),
            variables: overrides.variables().iter().cloned().collect(),
            settings: overrides.settings().to_vec(),
            results: None,
        }
    }

    /// The overrides of the spec.
    pub fn overrides(&self) -> Overrides {
        Overrides::new(self.variables.clone(), self.settings.clone())
    }

    /// The variables and settings that were laid over the spec, as `NAME=value`.
    pub fn laid_over(&self) -> Vec<String> {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        variables.chain(self.settings.iter().cloned()).collect()
    }

    /// The spec's path, or the arguments in its place.
    pub fn source(&self) -> String {
        match self.names.as_slice() {
            [] => self.spec.clone(),
            names => names.join(" "),
        }
    }

    /// The command that makes the study again in the folder where it was made, for a shell; empty if it is not known.
    pub fn command(&self) -> String {
        self.command_of("run", &[])
    }

    /// The line for a shell of another command that takes a spec, with more options; empty if the spec is not known.
    pub fn command_of(&self, command: &str, options: &[String]) -> String {
        if self.spec.is_empty() && self.names.is_empty() {
            return String::new();
        }
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        let mut words: Vec<String> = variables.collect();
        words.extend(["expctl".into(), command.into()]);
        // A path that begins with a dash is not an option.
        let path = |path: &str| match path.starts_with('-') {
            true => quoted(&format!("./{path}")),
            false => quoted(path),
        };
        match self.names.as_slice() {
            [] => words.push(path(&self.spec)),
            names => words.extend(names.iter().map(|name| quoted(name))),
        }
        for setting in &self.settings {
            words.extend(["--set".into(), quoted(setting)]);
        }
        if let Some(results) = &self.results {
            words.extend(["--results".into(), path(results)]);
        }
        words.extend(options.iter().map(|option| quoted(option)));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_holds_all_that_was_given() {
        let overrides = Overrides::new(
            [
                ("EXPCTL_SEED".to_owned(), "7".to_owned()),
                ("HOME".to_owned(), "/".to_owned()),
            ],
            vec!["rank=4".into(), "data={path: it's.txt}".into()],
        );
        let mut invocation = Invocation::new("a b.yaml".into(), &overrides);
        invocation.results = Some("-out".into());
        assert_eq!(
            invocation.command(),
            "EXPCTL_SEED=7 expctl run 'a b.yaml' --set rank=4 --set 'data={path: it'\\''s.txt}' --results ./-out"
        );
        assert_eq!(
            Invocation::new("a b.yaml".into(), &invocation.overrides()).settings,
            invocation.settings
        );
    }
}
