//! `claims`: sentences that a study puts to the test.

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::de;
use super::error::Diagnostic;
use super::published::{entries, place};
use super::selection::{CellSelector, Selection};
use super::source::{Origin, Sources};
use super::tree::Node;
use crate::text::Unit;
use crate::text::quoted;

/// A sentence and the expression that must hold if it is true. Like the description it is no part of a cell: a change
/// takes effect with the next report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The sentence, as its source has it.
    pub claim: String,
    /// Who says so and where: a text, a URL, or both.
    pub source: String,
    /// What a reader has to know to judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Values by dotted key: the claim is about the cells that have them. Default: about all.
    #[serde(default, skip_serializing_if = "Selection::is_empty")]
    #[schemars(skip)]
    pub cells: Selection,
    /// Named values that the report shows; `holds` and later ones can use them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, Measure>")]
    pub measured: IndexMap<String, Measure>,
    /// A minijinja expression over the study that is true if the claim is.
    pub holds: String,
    /// The verdict that `--check` asks for: `refuted` for a claim that is known not to hold here.
    #[serde(default, skip_serializing_if = "Expected::is_supported")]
    pub expect: Expected,
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) origin: Origin,
}

/// A value that a claim's verdict rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// A minijinja expression: bytes for units of memory, a part of one for `%`.
    pub value: String,
    #[serde(default = "plain", skip_serializing_if = "is_plain")]
    pub unit: Unit,
    /// How many decimals it is shown with; default: what suits the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimals: Option<usize>,
}

fn plain() -> Unit {
    Unit::Plain
}

fn is_plain(unit: &Unit) -> bool {
    *unit == Unit::Plain
}

/// What is expected of a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    #[default]
    Supported,
    Refuted,
}

impl Expected {
    fn is_supported(&self) -> bool {
        *self == Self::Supported
    }
}

/// Reads the section; `node` is null where there is none. What an override leaves no cells for is left out, and noted.
pub(crate) fn read(
    node: &Node,
    selector: &CellSelector<'_>,
    sources: &Arc<Sources>,
    notes: &mut Vec<String>,
) -> Result<Vec<Claim>, Diagnostic> {
    let mut claims = Vec::new();
    for (index, node) in entries(node, "claims")?.iter().enumerate() {
        let section = format!("claims[{index}]");
        let mut claim: Claim = from_node(node, &section, sources)?;
        let name = format!("{section}.cells");
        let given = node.get(&["cells"]);
        claim.cells = given.map_or(Ok(Selection::new()), |given| selector.read(given, &name))?;
        match (
            selector.some(&claim.cells, &name, place(given, node)),
            selector.overridden(&claim.cells),
        ) {
            (Ok(()), _) => claims.push(claim),
            (Err(_), Some(origin)) => notes.push(format!("{origin} leaves no cells for {section}")),
            (Err(error), None) => return Err(error),
        }
    }
    Ok(claims)
}

/// Reads what a study's file holds: the values that pick cells have their types there.
pub(crate) fn read_stored(node: &Node, sources: &Arc<Sources>) -> Result<Vec<Claim>, Diagnostic> {
    let entries = entries(node, "claims")?.iter().enumerate();
    entries
        .map(|(index, node)| from_node(node, &format!("claims[{index}]"), sources))
        .collect()
}

fn from_node(node: &Node, section: &str, sources: &Arc<Sources>) -> Result<Claim, Diagnostic> {
    let mut claim: Claim = de::read(node).map_err(|error| error.diagnostic(section))?;
    let wrong = |key: &str, message: &str| {
        let at = place(node.get(&key.split('.').collect::<Vec<_>>()), node);
        Err(Diagnostic::new(format!("{section}.{key}: {message}")).at(at))
    };
    for (key, text) in [
        ("claim", &claim.claim),
        ("source", &claim.source),
        ("holds", &claim.holds),
    ] {
        if text.trim().is_empty() {
            return wrong(key, "it is empty");
        }
    }
    for (name, measure) in &claim.measured {
        if !is_name(name) {
            let help = "letters, digits and `_`, and no digit first: expressions use it";
            return wrong("measured", &format!("{} is no name", quoted(name))).map_err(|error| error.help(help));
        }
        if measure.decimals.is_some_and(|decimals| decimals > 12) {
            return wrong(&format!("measured.{name}.decimals"), "at most 12 are shown");
        }
    }
    claim.origin = Origin::of(node, sources);
    Ok(claim)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
