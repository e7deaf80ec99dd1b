//! Which modules get no adapter, although they are targets.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{ends_in, pattern::NamePattern};

/// PEFT's `exclude_modules`: a list of the ends of names, or a regular expression for names in full.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExcludedModules {
    /// The modules with these names: their last parts, or more of them.
    Names(Vec<String>),
    /// The modules whose names in full match.
    Pattern(NamePattern),
}

impl ExcludedModules {
    /// True if the module called `module` in full is excluded.
    pub fn contains(&self, module: &str) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|name| ends_in(module, name)),
            Self::Pattern(pattern) => pattern.matches(module),
        }
    }

    /// What excludes: the names, or the pattern.
    pub fn parts(&self) -> Vec<Self> {
        match self {
            Self::Names(names) => names.iter().map(|name| Self::Names(vec![name.clone()])).collect(),
            Self::Pattern(_) => vec![self.clone()],
        }
    }
}

impl std::fmt::Display for ExcludedModules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Names(names) => f.write_str(&names.join(", ")),
            Self::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

impl Serialize for ExcludedModules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Names(names) => names.serialize(serializer),
            Self::Pattern(pattern) => pattern.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ExcludedModules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a list such as `[lm_head]`, or a regular expression for whole names"
        )]
        enum Written {
            Names(Vec<String>),
            Pattern(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Names(names) => Ok(Self::Names(names)),
            Written::Pattern(text) => NamePattern::whole(&text).map(Self::Pattern).map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for ExcludedModules {
    fn schema_name() -> Cow<'static, str> {
        "ExcludedModules".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true },
                { "type": "string", "title": "a regular expression for whole names" }
            ]
        })
    }
}
