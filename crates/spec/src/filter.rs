//! `exclude`: expressions over a cell's keys.

use std::collections::{BTreeMap, BTreeSet};

use base::text::{Mistake, quoted};
use cell::keys;
use cell::{Cell, is_size};
use expression::{Expression, Language};
use minijinja::value::Serde;
use options::ByteSize;
use serde_json::{Map, Value};
use yaml::diagnostic::Diagnostic;

use super::aliases;
use super::sweep::Exclude;

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
            let mut expression = language
                .compile(&exclude.text)
                .map_err(|mistake| diagnostic(mistake, exclude))?;
            if expression.names().iter().any(|name| is_size(name)) {
                expression = language
                    .compile(&with_bytes(&exclude.text))
                    .map_err(|mistake| diagnostic(mistake, exclude))?;
            }
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
    /// that it can be compared; sizes are in bytes.
    fn values<'c>(&'c self, cell: &Cell, keys: &Map<String, Value>) -> BTreeMap<&'c str, Value> {
        let value = |name: &String| match name.as_str() {
            "lora_alpha" => Some(cell.lora_alpha().into()),
            "max_steps" => Some(cell.max_steps().into()),
            "weights" => serde_json::to_value(cell.weights()).ok(),
            "device_memory" => Some(cell.device_memory.map(|size| size.0).into()),
            "host_memory" => Some(cell.host_memory.map(|size| size.0).into()),
            name => keys.get(name).cloned(),
        };
        self.names
            .iter()
            .filter_map(|name| Some((name.as_str(), value(name)?)))
            .collect()
    }
}

/// An expression with numbers of bytes in the place of sizes in quotes, such as `'8MB'`, where they are compared with a
/// key that is a size. Spaces keep the places of what follows, unless the number is longer.
fn with_bytes(text: &str) -> String {
    let tokens = tokens(text);
    let conditions = tokens.split_inclusive(|token| ["and", "or", "if", "else"].contains(token));
    let in_bytes = |condition: &[&str]| -> String {
        let is_of_size = condition.iter().any(|token| is_size(token));
        let written = condition.iter().map(|token| match bytes(token).filter(|_| is_of_size) {
            Some(bytes) => format!("{bytes:<0$}", token.len()),
            None => (*token).to_owned(),
        });
        written.collect()
    };
    conditions.map(in_bytes).collect()
}

/// The texts in quotes, words and other characters of an expression.
fn tokens(text: &str) -> Vec<&str> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let after_first = &rest[first.len_utf8()..];
        let end = match first {
            '\'' | '"' => after_first.find(first).map_or(rest.len(), |at| at + 2),
            first if is_of_word(first) => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// The bytes of a size in quotes.
fn bytes(token: &str) -> Option<u64> {
    let word = token.trim_matches(['\'', '"']);
    let has_unit =
        word.len() + 2 == token.len() && word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with('B');
    word.parse::<ByteSize>().ok().filter(|_| has_unit).map(|size| size.0)
}

fn diagnostic(mistake: Mistake, exclude: &Exclude) -> Diagnostic {
    let part = mistake
        .range
        .and_then(|range| exclude.place.part(&exclude.text, &range));
    Diagnostic::new(format!("sweep.exclude: {}", mistake.message))
        .at(part.unwrap_or(exclude.place))
        .help_if(mistake.help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_compared_as_bytes() {
        for (text, expected) in [
            ("device_memory == '8MB'", "device_memory == 8000000"),
            (
                "device_memory < \"2 GiB\" and dtype == 'int4'",
                "device_memory < 2147483648 and dtype == 'int4'",
            ),
            (
                "device_memory in ['1GB', 'B', '4']",
                "device_memory in [1000000000, 'B', '4']",
            ),
            ("dtype == 'int4", "dtype == 'int4"),
            (
                "model == './7B' or '8B' in model and '8MB' > device_memory",
                "model == './7B' or '8B' in model and 8000000 > device_memory",
            ),
            ("'7B' == model", "'7B' == model"),
        ] {
            assert_eq!(with_bytes(text), expected);
        }
    }
}
