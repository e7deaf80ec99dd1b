//! `published`: figures that somebody else published, to be shown beside what is measured.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::de;
use super::error::Diagnostic;
use super::selection::{CellSelector, Selection};
use super::source::{Origin, Place, Sources};
use super::tree::{Node, Value};
use crate::text::quoted;
use crate::text::{Dimension, Unit};

/// A published figure. Like the description it is no part of a cell: a change takes effect with the next report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What its source calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The column of the frame that it is set beside, such as `allocated_peak_bytes`.
    pub column: String,
    /// A column that `column` is divided by, for a figure in `%` or `×`, such as `parameter_count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The number, with the digits that were published; thousands may have commas.
    #[schemars(extend("type" = ["string", "number"]))]
    pub value: String,
    pub unit: Unit,
    /// Which memory its source measured; `unstated` where the source does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Who published it and where: a text, a URL, or both.
    pub source: String,
    /// What a reader has to know to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Values by dotted key that pick the cell it belongs to; they may be left out where the study has one cell.
    #[serde(default, skip_serializing_if = "Selection::is_empty")]
    #[schemars(skip)]
    pub cell: Selection,
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) origin: Origin,
}

/// What a figure of memory counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Bytes of live tensors.
    Allocated,
    /// What the allocator holds.
    Reserved,
    /// What the process holds: its resident set, or the figure of `nvidia-smi`.
    Process,
    /// The source does not say.
    Unstated,
}

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::Reserved => "reserved",
            Self::Process => "process",
            Self::Unstated => "unstated",
        }
    }
}

impl Published {
    /// The number in what the frame counts in: bytes, seconds, ones.
    pub fn number(&self) -> f64 {
        // Checked when it was read.
        parse(&self.value).unwrap_or(f64::NAN) * self.unit.factor()
    }

    /// How many digits behind the point were published.
    pub fn decimals(&self) -> usize {
        self.value.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }

    fn check(&self) -> Result<(), (&'static str, String, Option<String>)> {
        let wrong = |key, message: &str, help: Option<&str>| Err((key, message.to_owned(), help.map(str::to_owned)));
        if parse(&self.value).is_none() {
            let message = format!(
                "expected a number such as 255.41 or 1,916,697,600, got {}",
                quoted(&self.value)
            );
            return wrong("value", &message, Some("the unit has a key of its own"));
        }
        if self.source.trim().is_empty() {
            return wrong("source", "a published figure needs its source", None);
        }
        let dimension = self.unit.dimension();
        match (dimension, self.metric, &self.of) {
            (Dimension::Memory, None, _) => wrong(
                "",
                "the key `metric` is missing",
                Some("`allocated`, `reserved` or `process`; `unstated` where the source does not say"),
            ),
            (Dimension::Memory, Some(_), None) => Ok(()),
            (_, Some(_), _) => wrong("metric", "only figures of memory have a metric", None),
            (Dimension::Share, None, None) => wrong(
                "unit",
                "a share is one column over another, and `of` names the second",
                Some("for example `column: trainable_count, of: parameter_count`"),
            ),
            (Dimension::Share, None, Some(_)) => Ok(()),
            (_, _, Some(_)) => wrong(
                "of",
                "one column over another is a share",
                Some("its unit is `%` or `×`"),
            ),
            _ => Ok(()),
        }
    }
}

/// Digits, with commas between thousands if at all, and a point.
fn parse(text: &str) -> Option<f64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut thousands = whole.split(',');
    let first = thousands.next()?;
    let grouped = whole.contains(',');
    let well_formed = digits(first)
        && (!grouped || first.len() <= 3)
        && thousands.all(|group| group.len() == 3 && digits(group))
        && digits(decimals);
    well_formed.then(|| text.replace(',', "").parse().ok()).flatten()
}

/// Reads the section; `node` is null where there is none. What an override leaves no cell for is left out, and noted.
pub(crate) fn read(
    node: &Node,
    selector: &CellSelector<'_>,
    sources: &Arc<Sources>,
    notes: &mut Vec<String>,
) -> Result<Vec<Published>, Diagnostic> {
    let mut figures = Vec::new();
    for (index, node) in entries(node, "published")?.iter().enumerate() {
        let section = format!("published[{index}]");
        let mut figure: Published = from_node(node, &section, sources)?;
        let name = format!("{section}.cell");
        let given = node.get(&["cell"]);
        figure.cell = given.map_or(Ok(Selection::new()), |given| selector.read(given, &name))?;
        match (
            selector.one(&figure.cell, &name, place(given, node)),
            selector.overridden(&figure.cell),
        ) {
            (Ok(()), _) => figures.push(figure),
            (Err(_), Some(origin)) => notes.push(format!("{origin} leaves no cell for {section}")),
            (Err(error), None) => return Err(error),
        }
    }
    Ok(figures)
}

/// Reads what a study's file holds: the values that pick cells have their types there.
pub(crate) fn read_stored(node: &Node, sources: &Arc<Sources>) -> Result<Vec<Published>, Diagnostic> {
    let entries = entries(node, "published")?.iter().enumerate();
    entries
        .map(|(index, node)| from_node(node, &format!("published[{index}]"), sources))
        .collect()
}

fn from_node(node: &Node, section: &str, sources: &Arc<Sources>) -> Result<Published, Diagnostic> {
    let mut figure: Published = de::read(node).map_err(|error| error.diagnostic(section))?;
    figure.origin = Origin::of(node, sources);
    figure.check().map_err(|(key, message, help)| {
        let section = if key.is_empty() {
            section.to_owned()
        } else {
            format!("{section}.{key}")
        };
        let place = if key.is_empty() {
            node.place
        } else {
            place(node.get(&[key]), node)
        };
        Diagnostic::new(format!("{section}: {message}")).at(place).help_if(help)
    })?;
    Ok(figure)
}

/// The entries of a section that is a list of maps; null is none.
pub(crate) fn entries<'n>(node: &'n Node, section: &str) -> Result<&'n [Node], Diagnostic> {
    match &node.value {
        Value::List(list) => Ok(list),
        _ if node.is_null() => Ok(&[]),
        _ => Err(Diagnostic::new(format!("{section}: expected a list of maps, got {}", node.kind())).at(node.place)),
    }
}

pub(crate) fn place(node: Option<&Node>, otherwise: &Node) -> Place {
    node.unwrap_or(otherwise).place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_published() {
        for (text, number) in [
            ("255.41", 255.41),
            ("1,916,697,600", 1_916_697_600.0),
            ("0.60", 0.6),
            ("12345", 12345.0),
        ] {
            assert_eq!(parse(text), Some(number), "{text}");
        }
        for text in [
            "", "~5", "1,23", "1234,567", ",5", "5.", ".5", "1e9", "5 GB", "-1", "1.234,5", "inf",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
