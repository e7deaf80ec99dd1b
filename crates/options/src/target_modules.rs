//! Which linear layers get an adapter.

use std::borrow::Cow;
use std::fmt;

use base::text::{quoted, suggestion};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::pattern::NamePattern;

/// The linear layers that get an adapter: `all-linear`, PEFT's choice, a list of the ends of their names, or a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetModules {
    /// Every linear layer but the head, as in PEFT.
    AllLinear,
    /// The layers that PEFT chooses by the model's `model_type` where it is told none.
    Peft,
    /// The layers with these names: their last parts, or more of them.
    Names(Vec<String>),
    /// The layers whose names in full match.
    Pattern(NamePattern),
}

/// Characters that make a text a regular expression rather than a name.
const OF_PATTERNS: [char; 12] = ['.', '*', '+', '?', '(', '[', '{', '|', '\\', '^', '$', ')'];

impl TargetModules {
    /// True if the linear layer called `module` in full gets an adapter, whatever the model; PEFT's choice depends on it.
    pub fn contains(&self, module: &str) -> bool {
        match self {
            Self::AllLinear => true,
            Self::Peft => false,
            Self::Pattern(pattern) => pattern.matches(module),
            Self::Names(names) => names.iter().any(|name| ends_in(module, name)),
        }
    }
}

/// True if the last parts of a module's name are `name`.
pub fn ends_in(module: &str, name: &str) -> bool {
    let rest = module.strip_suffix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl Serialize for TargetModules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AllLinear => serializer.serialize_str("all-linear"),
            Self::Peft => serializer.serialize_str("peft"),
            Self::Names(names) => names.serialize(serializer),
            Self::Pattern(pattern) => pattern.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TargetModules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = TargetModules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "`all-linear`, `peft`, a list such as `[q_proj, v_proj]`, or a regular expression for whole names",
                )
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<TargetModules, E> {
                // LLaMA-Factory's and ms-swift's word.
                if matches!(word, "all-linear" | "all") {
                    return Ok(TargetModules::AllLinear);
                }
                if word == "peft" {
                    return Ok(TargetModules::Peft);
                }
                if word.contains(OF_PATTERNS) {
                    return NamePattern::whole(word).map(TargetModules::Pattern).map_err(E::custom);
                }
                let meant = suggestion(word, ["all-linear", "peft"]).unwrap_or_else(|| format!("write `[{word}]`"));
                Err(E::custom(format!(
                    "expected {}, got {}; {meant}",
                    &self as &dyn de::Expected,
                    quoted(word)
                )))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TargetModules, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = seq.next_element()? {
                    names.push(name);
                }
                Ok(TargetModules::Names(names))
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for TargetModules {
    fn schema_name() -> Cow<'static, str> {
        "TargetModules".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "all-linear" },
                { "const": "peft" },
                {
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "uniqueItems": true
                },
                { "type": "string", "title": "a regular expression for whole names", "pattern": r"[.*+?(\[{|\\^$)]" }
            ]
        })
    }
}
