//! The `fit` section: how far a search for what fits may go.

use base::text::{Mistake, quoted};
use cell::{Cell, Invalid};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de as serde_de};
use serde_json::Value as Json;
use techniques::{TECHNIQUES, Technique};
use torch::gpu;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::tree::{Entry, Node, Value};

use super::sweep::expect_map;
use super::{aliases, by_key};
use crate::typed;

const SECTION: &str = "fit.vary";

/// How far a search for what fits may go: `expctl fit`, and the advice of a plan. Not part of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FitSpec {
    /// What `expctl fit` makes the cells fit into: a size such as 6GiB, or a GPU. Default: each cell's gpu or device_memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub budget: Option<Budget>,
    /// Keys that stay as they are, such as [dtype, max_seq_length].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// The keys that may change, each with the values to try or with nothing, which leaves them to the search:
    /// {batch_size: , rank: [32, 16]}. Default: every key that saves memory.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(schema_with = "by_key::lists_or_nothing")]
    pub vary: IndexMap<String, Option<Vec<Json>>>,
}

impl FitSpec {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// True if a value of a technique is invalid only because of a key that may change as well.
    pub fn may_mend(&self, technique: &Technique, invalid: &Invalid) -> bool {
        let first = invalid.key.split('[').next();
        let mut keys = first.into_iter().chain(invalid.with.iter().copied());
        let own = |key: &str| technique.keys().any(|own| own == key);
        keys.any(|key| self.vary.contains_key(key) && !own(key))
    }

    /// The mistakes in `keep`, and in what it contradicts.
    pub(super) fn check(&self) -> Vec<(String, Mistake)> {
        let of_keep = |key: &String| {
            if self.vary.contains_key(key) {
                return Some(Mistake::new(format!("{} is to change and to stay", quoted(key))));
            }
            check_key(key).err()
        };
        let mistakes = self.keep.iter().enumerate();
        mistakes
            .filter_map(|(index, key)| Some((format!("fit.keep.{index}"), of_keep(key)?)))
            .collect()
    }
}

/// Makes sure that a search can change the key.
fn check_key(key: &str) -> Result<(), Mistake> {
    let known: Vec<&str> = TECHNIQUES.iter().flat_map(|technique| technique.keys()).collect();
    if known.contains(&key) {
        return Ok(());
    }
    let help = aliases::suggestion(key, &known).unwrap_or_else(|| format!("these do: {}", known.join(", ")));
    Err(Mistake::new(format!("{} is not a key that saves memory", quoted(key))).help(help))
}

/// The keys that may change, with their values typed. Each value is possible in one of the cells at least.
pub(super) fn read_vary(
    node: Option<&Node>,
    defaults: &Node,
    cells: &[&Cell],
    mistakes: &mut Mistakes,
) -> IndexMap<String, Option<Vec<Json>>> {
    let Some(node) = node.filter(|node| !node.is_null() && !node.is_hole()) else {
        return IndexMap::new();
    };
    let Some(map) = mistakes.take(expect_map(node, SECTION)) else {
        return IndexMap::new();
    };
    let (mut vary, mut written) = (IndexMap::new(), Vec::new());
    for (name, Entry { key, value }) in map {
        let section = format!("{SECTION}.{name}");
        let follows = TECHNIQUES.iter().find(|technique| technique.follows.contains(&&**name));
        if let Some(technique) = follows {
            let message = format!("{section}: the key follows `{}`", technique.key);
            mistakes.add(
                Diagnostic::new(message)
                    .at(*key)
                    .help(format!("vary `{}`", technique.key)),
            );
            continue;
        }
        if let Err(mistake) = check_key(name) {
            let message = format!("{SECTION}: {}", mistake.message);
            mistakes.add(Diagnostic::new(message).at(*key).help_if(mistake.help.as_ref()));
            continue;
        }
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        let nodes: &[Node] = match &value.value {
            Value::List(list) => list,
            _ if value.is_null() => {
                vary.insert(name.to_string(), None);
                continue;
            }
            _ => std::slice::from_ref(value),
        };
        let mut values = Vec::new();
        for node in nodes {
            let mut tree = defaults.clone();
            tree.set(&path, *key, node.clone());
            let (cell, errors) = typed::read_all::<Cell>(&mut tree);
            let mut within: Vec<_> = errors
                .into_iter()
                .filter(|error| error.path.starts_with(&path))
                .collect();
            for error in &mut within {
                error.path.drain(..path.len());
            }
            match (cell, within.is_empty()) {
                (Some(cell), true) => {
                    values.push(cell.value(name));
                    written.push((name, cell.value(name), node.place));
                }
                _ => within
                    .into_iter()
                    .for_each(|error| mistakes.add(error.diagnostic(&section))),
            }
        }
        vary.insert(name.to_string(), Some(values));
    }
    let fit = FitSpec {
        vary,
        ..FitSpec::default()
    };
    for (key, value, place) in written {
        let technique = TECHNIQUES.iter().find(|technique| technique.key == &**key);
        let invalid = technique.and_then(|technique| fit.invalid(technique, &value, cells));
        if let Some(Invalid { key: at, mistake, .. }) = invalid {
            let message = match at.strip_prefix(&**key) {
                Some(_) => format!("{SECTION}.{key}: {}", mistake.message),
                None => format!("{SECTION}.{key}: {at}: {}", mistake.message),
            };
            mistakes.add(Diagnostic::new(message).at(place).help_if(mistake.help.as_ref()));
        }
    }
    fit.vary
}

impl FitSpec {
    /// The reason why a value is invalid in all cells; `None` if one of them can have it.
    fn invalid(&self, technique: &Technique, value: &Json, cells: &[&Cell]) -> Option<Invalid> {
        let mut first = None;
        for cell in cells {
            let invalid = technique.changed(cell, value)?.validate().err()?.0;
            let invalid = invalid.into_iter().find(|invalid| !self.may_mend(technique, invalid))?;
            first.get_or_insert(invalid);
        }
        first
    }
}

/// A budget, as it stands in a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(pub gpu::Budget);

impl Serialize for Budget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map(Self)
            .map_err(|mistake: Mistake| serde_de::Error::custom(mistake))
    }
}
