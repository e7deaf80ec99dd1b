//! `claims`: sentences that a study puts to the test.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::by_key;
use super::entry::Entry;
use super::origin::Origin;
use super::selection::Selection;
use crate::text::{Mistake, Unit, quoted};

/// A sentence and the expression that must hold if it is true. Like the description it is not part of a cell: a change
/// takes effect with the next report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The sentence, as its source has it.
    pub claim: String,
    /// Who says so and where: a text, a URL, or both.
    pub source: String,
    /// A remark that readers need to judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Values by dotted key: the claim is about the cells that have them. Default: about all.
    #[serde(default, skip_serializing_if = "Selection::is_empty")]
    #[schemars(schema_with = "by_key::values")]
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
    /// The unit that it is shown in. Default: a plain number.
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

/// The verdict that a spec expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    #[default]
    /// It holds.
    Supported,
    /// It does not hold here.
    Refuted,
}

impl Expected {
    fn is_supported(&self) -> bool {
        *self == Self::Supported
    }
}

impl Entry for Claim {
    const SECTION: &'static str = "claims";
    const PICKED_BY: &'static str = "cells";
    const NEEDS_ONE: bool = false;

    fn check(&self) -> Vec<(String, Mistake)> {
        let texts = [("claim", &self.claim), ("source", &self.source), ("holds", &self.holds)];
        let empty = texts.into_iter().filter(|(_, text)| text.trim().is_empty());
        let mut found: Vec<(String, Mistake)> = empty
            .map(|(key, _)| (key.to_owned(), Mistake::new("it is empty")))
            .collect();
        for (name, measure) in &self.measured {
            if !is_name(name) {
                let mistake = Mistake::new(format!("{} is not a name", quoted(name)))
                    .help("letters, digits and `_`, and no digit first: expressions use it");
                found.push(("measured".into(), mistake));
            }
            if measure.decimals.is_some_and(|decimals| decimals > 12) {
                let key = format!("measured.{name}.decimals");
                found.push((key, Mistake::new("at most 12 are shown")));
            }
        }
        found
    }

    fn selection(&mut self) -> &mut Selection {
        &mut self.cells
    }

    fn origin(&mut self) -> &mut Origin {
        &mut self.origin
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
