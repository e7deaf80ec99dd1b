//! Patterns of modules' names, as PEFT matches them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};

use base::text::quoted;
use fancy_regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A regular expression for the name of a module, or for the last parts of it (PEFT's `get_pattern_key`).
#[derive(Debug, Clone)]
pub struct NamePattern {
    text: String,
    regex: Regex,
}

/// Values by pattern, as in PEFT's `rank_pattern`.
pub type Patterns<T> = BTreeMap<NamePattern, T>;

/// The value of the pattern that matches the module called `name` in full.
pub fn matching<T: Copy>(patterns: &Patterns<T>, name: &str) -> Option<T> {
    let mut found = patterns.iter().filter(|(pattern, _)| pattern.matches(name));
    found.next().map(|(_, value)| *value)
}

impl NamePattern {
    /// A pattern of this text.
    ///
    /// # Errors
    /// If the text is not a regular expression.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::within(r"^(?:.*\.)?", text)
    }

    /// A pattern that matches whole names only, as PEFT's `target_modules` does.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn whole(text: &str) -> Result<Self, String> {
        Self::within("^", text)
    }

    fn within(start: &str, text: &str) -> Result<Self, String> {
        // By itself first: a message has positions.
        match Regex::new(text).and_then(|_| Regex::new(&format!("{start}(?:{text})$"))) {
            Ok(regex) => Ok(Self {
                text: text.to_owned(),
                regex,
            }),
            Err(error) => Err(format!("{} is not a regular expression: {error}", quoted(text))),
        }
    }

    /// True if it matches the module called `name`, such as `model.layers.0.self_attn.q_proj`. A search that gives up
    /// has found nothing; a model's names are tried with [`Self::search`] before.
    pub fn matches(&self, name: &str) -> bool {
        self.search(name).unwrap_or(false)
    }

    /// True if it matches the module called `name`.
    ///
    /// # Errors
    /// If the search gives up, since it would take too many steps.
    pub fn search(&self, name: &str) -> Result<bool, String> {
        self.regex.is_match(name).map_err(|error| error.to_string())
    }
}

impl Display for NamePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NamePattern {}

impl PartialOrd for NamePattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NamePattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for NamePattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for NamePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for NamePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for NamePattern {
    fn schema_name() -> Cow<'static, str> {
        "NamePattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_name_or_its_end() {
        let matches = |pattern: &str, name| NamePattern::new(pattern).unwrap().matches(name);
        let query = "model.layers.10.self_attn.q_proj";
        assert!(matches("q_proj", query) && matches("self_attn.q_proj", query) && matches("[qv]_proj", query));
        assert!(matches(r"layers\.\d+\.self_attn.*", query) && matches(query, query));
        assert!(matches("k_proj|q_proj", query), "each alternative");
        assert!(!matches("proj", query) && !matches("q", query) && !matches("0.self_attn.q_proj", query));
        assert!(matches(
            r".*(?<!\.1\d)\.self_attn\.q_proj",
            "model.layers.9.self_attn.q_proj"
        ));
        let whole = |pattern: &str| NamePattern::whole(pattern).unwrap().matches(query);
        assert!(whole(r".*\.q_proj") && !whole("q_proj") && !whole(".*0"));
        assert!(NamePattern::new("(").unwrap_err().contains("not a regular expression"));
    }
}
