//! `claims`: sentences that a study puts to the test.

use base::text::{Mistake, Unit, quoted};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::by_key;
use super::entry::Entry;
use super::expect::Expect;
use super::origin::Origin;
use super::selection::Selection;

/// A sentence and the expression that must hold if it is true. Like the description it is not part of a cell: a change
/// takes effect with the next report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The sentence, as its source has it.
    pub claim: String,
    /// Who says so and where: a text, a URL, or both.
    pub source: String,
    /// A remark that readers need to judge. It may hold figures, as the description may.
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
    /// A minijinja expression that is true if the claim is; judged on each stack of the claim's cells. It or `untested` is
    /// required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// A minijinja expression that is true if the claim is understated: 58 % where 30 to 50 % were claimed. Judged if
    /// `holds` is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeds: Option<String>,
    /// The reason why nothing here can judge the claim, in place of `holds`. It may hold figures, as the description may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// The verdict that `--check` asks for, or a map with one for each stack. `refuted` is for a claim that is known
    /// not to hold here.
    #[serde(default, skip_serializing_if = "Expect::is_default")]
    pub expect: Expect,
    #[serde(skip)]
    #[schemars(skip)]
    /// Where it was written.
    pub origin: Origin,
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

impl Entry for Claim {
    const SECTION: &'static str = "claims";
    const PICKED_BY: &'static str = "cells";
    const NEEDS_ONE: bool = false;

    fn check(&self) -> Vec<(String, Mistake)> {
        let texts = [
            ("claim", Some(&self.claim)),
            ("source", Some(&self.source)),
            ("holds", self.holds.as_ref()),
            ("exceeds", self.exceeds.as_ref()),
            ("untested", self.untested.as_ref()),
        ];
        let is_empty = |text: &Option<&String>| text.is_some_and(|text| text.trim().is_empty());
        let empty = texts.into_iter().filter(|(_, text)| is_empty(text));
        let mut found: Vec<(String, Mistake)> = empty
            .map(|(key, _)| (key.to_owned(), Mistake::new("it is empty")))
            .collect();
        found.extend(self.check_condition());
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

impl Claim {
    /// The texts of all expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &str> {
        let values = self.measured.values().map(|measure| measure.value.as_str());
        values.chain(self.holds.as_deref()).chain(self.exceeds.as_deref())
    }

    /// A claim has a condition or the reason why there is none.
    fn check_condition(&self) -> Option<(String, Mistake)> {
        let wrong = |key: &str, message: &str, help: &str| Some((key.into(), Mistake::new(message).help(help)));
        match (&self.holds, &self.untested) {
            (None, None) => wrong(
                "",
                "the key `holds` is missing",
                "without a condition, `untested: …` says why there is none",
            ),
            (Some(_), Some(_)) => wrong(
                "untested",
                "the claim has a condition",
                "leave out `holds`, or `untested`",
            ),
            (None, Some(_)) if self.exceeds.is_some() || !self.measured.is_empty() || !self.expect.is_default() => {
                wrong(
                    "untested",
                    "`exceeds`, `measured` and `expect` need a condition",
                    "leave them out, or `untested`",
                )
            }
            _ => None,
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
