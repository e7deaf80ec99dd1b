//! `report.answer`: the sentences that answer a study's question.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::expect::Expect;
use super::origin::Origin;
use super::selection::Selection;

/// A sentence of a study's answer. It is a text, or a map with the condition of its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerSentence {
    /// The sentence, with figures as in the description.
    pub sentence: String,
    /// An expression that is true if the words between the figures are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// The sentence in its place if the condition is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
    /// Where it was written.
    #[serde(skip)]
    pub origin: Origin,
}

/// The map of a sentence.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Judged {
    /// The sentence, with figures as in the description.
    sentence: String,
    /// A minijinja expression that is true if the words between the figures are, such as "as fast as" or "at the same
    /// loss". It is judged as that of a claim is.
    holds: Option<String>,
    /// The sentence in its place if the condition is false. Default: the report says that the sentence does not hold, and
    /// `--check` fails.
    otherwise: Option<String>,
}

impl AnswerSentence {
    /// The claim that its words make; `None` without a condition.
    pub fn claim(&self) -> Option<Claim> {
        let holds = Some(self.holds.clone()?);
        Some(Claim {
            claim: self.sentence.clone(),
            source: String::new(),
            note: None,
            cells: Selection::default(),
            measured: IndexMap::new(),
            holds,
            exceeds: None,
            untested: None,
            expect: Expect::default(),
            origin: self.origin.clone(),
        })
    }

    /// The key of its text below its own place.
    pub fn text_key(&self) -> &'static str {
        if self.origin.has("sentence") { "sentence" } else { "" }
    }
}

impl<'de> Deserialize<'de> for AnswerSentence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrMap;

        impl<'de> Visitor<'de> for TextOrMap {
            type Value = AnswerSentence;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sentence, or `{sentence: ..., holds: ...}`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AnswerSentence, E> {
                Ok(AnswerSentence {
                    sentence: text.to_owned(),
                    holds: None,
                    otherwise: None,
                    origin: Origin::default(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AnswerSentence, A::Error> {
                let judged = Judged::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(AnswerSentence {
                    sentence: judged.sentence,
                    holds: judged.holds,
                    otherwise: judged.otherwise,
                    origin: Origin::default(),
                })
            }
        }

        deserializer.deserialize_any(TextOrMap)
    }
}

impl JsonSchema for AnswerSentence {
    fn schema_name() -> Cow<'static, str> {
        "AnswerSentence".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let judged = generator.subschema_for::<Judged>();
        json_schema!({ "anyOf": [{ "type": "string", "minLength": 1 }, judged] })
    }
}
