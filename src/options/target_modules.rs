//! Which linear layers get an adapter.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The linear layers of a block, by the names they have in Hugging Face's checkpoints.
pub const MODULES: [&str; 7] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
];

/// Layers that Phi-3 has in their place, each several in one.
pub const FUSED_MODULES: [&str; 2] = ["qkv_proj", "gate_up_proj"];

/// The same of the encoders: DistilBERT's, then BERT's, where `dense` is also the pooler's.
pub const ENCODER_MODULES: [&str; 10] = [
    "q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2", "query", "key", "value", "dense",
];

/// Which linear layers get an adapter: `all-linear` or a list of [`MODULES`] or [`ENCODER_MODULES`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetModules {
    /// Every linear layer but the head, as in PEFT.
    AllLinear,
    /// The layers with these names.
    Names(Vec<String>),
}

impl TargetModules {
    /// True if the linear layer of this name gets an adapter; a head gets none.
    pub fn contains(&self, module: &str) -> bool {
        match self {
            Self::AllLinear => MODULES.contains(&module) || ENCODER_MODULES.contains(&module),
            Self::Names(names) => names.iter().any(|name| name == module),
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
                if MODULES.contains(&word) || ENCODER_MODULES.contains(&word) {
                    return Err(E::custom(format!(
                        "expected {}, got one name; write `[{word}]`",
                        &self as &dyn de::Expected
                    )));
                }
                Err(E::invalid_type(de::Unexpected::Str(word), &self))
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
        let modules = [&MODULES[..], &ENCODER_MODULES].concat();
        json_schema!({
            "oneOf": [
                { "const": "all-linear" },
                {
                    "type": "array",
                    "items": { "enum": modules },
                    "minItems": 1,
                    "uniqueItems": true
                }
            ]
        })
    }
}
