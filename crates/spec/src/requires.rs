//! The key `requires`: what must be there before a study runs, and what makes it.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Something that must be there before a study runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Requirement {
    /// A spec that runs first, relative to this one.
    Spec(PathBuf),
    /// A file or a folder that a command makes.
    Made(Made),
}

/// A file or a folder, and the command that makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The file or folder, relative to the spec.
    pub path: PathBuf,
    /// The command, as it is typed in the repository's folder.
    pub command: String,
}

/// For the schema: a single requirement needs no list.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum OneOrMore {
    One(Requirement),
    More(Vec<Requirement>),
}

/// Reads one requirement, several, or null.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Requirement>, D::Error> {
    struct Words;

    impl<'de> Visitor<'de> for Words {
        type Value = Vec<Requirement>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the path of a spec, `{path: ..., command: ...}`, or a list of these")
        }

        fn visit_str<E: de::Error>(self, path: &str) -> Result<Self::Value, E> {
            One.visit_str(path).map(|one| vec![one])
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            One.visit_map(map).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut requirements = Vec::new();
            while let Some(one) = list.next_element()? {
                requirements.push(one);
            }
            Ok(requirements)
        }
    }

    deserializer.deserialize_any(Words)
}

struct One;

impl<'de> Visitor<'de> for One {
    type Value = Requirement;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the path of a spec, or `{path: ..., command: ...}`")
    }

    fn visit_str<E: de::Error>(self, path: &str) -> Result<Requirement, E> {
        match path {
            "" => Err(E::custom("the path is empty")),
            path => Ok(Requirement::Spec(path.into())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Requirement, A::Error> {
        Made::deserialize(de::value::MapAccessDeserializer::new(map)).map(Requirement::Made)
    }
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(One)
    }
}
