//! The verdicts that a claim's spec expects, for `--check`.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use options::Stack;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// The verdict that a spec expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    #[default]
    /// It holds.
    Supported,
    /// It is understated: the effect is larger than claimed.
    Exceeded,
    /// It does not hold.
    Refuted,
}

/// The expected verdicts: one for all stacks, or one for each stack that is named. A stack without one is expected to
/// support the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// One verdict for all stacks.
    Everywhere(Expected),
    /// By stack.
    ByStack(IndexMap<Stack, Expected>),
}

impl Expect {
    /// The expected verdict on a stack; without a stack, on a computation.
    pub fn on(&self, stack: Option<Stack>) -> Expected {
        match (self, stack) {
            (Self::Everywhere(expected), _) => *expected,
            (Self::ByStack(by_stack), Some(stack)) => by_stack.get(&stack).copied().unwrap_or_default(),
            (Self::ByStack(_), None) => Expected::default(),
        }
    }

    /// The stacks that are named.
    pub fn stacks(&self) -> impl Iterator<Item = Stack> {
        let named = match self {
            Self::Everywhere(_) => None,
            Self::ByStack(by_stack) => Some(by_stack.keys().copied()),
        };
        named.into_iter().flatten()
    }

    /// True if it is what a spec without the key expects.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Expect {
    fn default() -> Self {
        Self::Everywhere(Expected::default())
    }
}

impl Serialize for Expect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Everywhere(expected) => expected.serialize(serializer),
            Self::ByStack(by_stack) => by_stack.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrMap;

        impl<'de> Visitor<'de> for WordOrMap {
            type Value = Expect;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`supported`, `exceeded`, `refuted` or a map with one of them for `torch` and `candle`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Expect, E> {
                Expected::deserialize(word.into_deserializer()).map(Expect::Everywhere)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Expect, A::Error> {
                let mut by_stack = IndexMap::new();
                while let Some((stack, expected)) = map.next_entry()? {
                    by_stack.insert(stack, expected);
                }
                Ok(Expect::ByStack(by_stack))
            }
        }

        deserializer.deserialize_any(WordOrMap)
    }
}

impl JsonSchema for Expect {
    fn schema_name() -> Cow<'static, str> {
        "Expect".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Expected>();
        json_schema!({
            "anyOf": [
                one,
                {
                    "type": "object",
                    "properties": { "torch": one, "candle": one },
                    "additionalProperties": false
                }
            ]
        })
    }
}
