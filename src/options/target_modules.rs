//! Which linear layers get an adapter.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{quoted, suggestion};

/// The linear layers that get an adapter: `all-linear`, or a list of the last parts of their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetModules {
    /// Every linear layer but the head, as in PEFT.
    AllLinear,
    /// The layers with these names.
    Names(Vec<String>),
}

impl TargetModules {
    /// True if the linear layer called `module`, in full or by its last part, gets an adapter. A head never gets one.
    pub fn contains(&self, module: &str) -> bool {
        match self {
            Self::AllLinear => true,
            Self::Names(names) => names.iter().any(|name| module.rsplit('.').next() == Some(name)),
        }
    }
}

impl Serialize for TargetModules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AllLinear => serializer.serialize_str("all-linear"),
            Self::Names(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TargetModules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = TargetModules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`all-linear` or a list such as `[q_proj, v_proj]`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<TargetModules, E> {
                if word == "all-linear" {
                    return Ok(TargetModules::AllLinear);
                }
                let meant = suggestion(word, ["all-linear"]).unwrap_or_else(|| format!("write `[{word}]`"));
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
                {
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "uniqueItems": true
                }
            ]
        })
    }
}
