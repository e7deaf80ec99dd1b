//! `published`: figures and outcomes that somebody else published, to be compared with what is measured or predicted.

use std::path::PathBuf;

use base::text::{Dimension, Mistake, Unit, quoted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::by_key;
use super::entry::Entry;
use super::origin::Origin;
use super::selection::Selection;

/// A published figure, or the outcome of a run. Like the description it is not part of a cell: a change takes effect with
/// the next report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its name in the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What a run came to, in place of a figure: `fits` or `out_of_memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PublishedOutcome>,
    /// With `outcome: fits`: the key whose value is the largest that fitted, `max_seq_length`, `batch_size` or `rank`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<LargestKey>,
    /// The column of the frame that a figure is compared with, such as `allocated_peak_bytes`; a figure needs it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub column: String,
    /// A column that `column` is divided by, for a figure in `%` or `×`, such as `parameter_count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The number, with the digits that were published; thousands may have commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("type" = ["string", "number"]))]
    pub value: String,
    /// A CSV file next to the spec with figures of many cells, instead of `value` and `cell`. Its column `cell_id`
    /// names the cell. The column with the figure's own name has the number, or nothing for a cell without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<PathBuf>,
    /// The unit of the number; a figure needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Unit")]
    pub unit: Option<Unit>,
    /// The memory that its source measured; `unstated` if the source does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Who published it and where: a text, a URL, or both.
    pub source: String,
    /// What an error of the prediction says about the plan. `expctl accuracy` keeps the kinds apart. Default: held_out.
    #[serde(default, skip_serializing_if = "Evidence::is_default")]
    #[schemars(with = "Option<Evidence>")]
    pub evidence: Evidence,
    /// A remark that readers need to compare. It may hold figures, as the description may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Values by dotted key that pick the cell it belongs to; they may be left out if the study has one cell.
    #[serde(default, skip_serializing_if = "Selection::is_empty")]
    #[schemars(schema_with = "by_key::values")]
    pub cell: Selection,
    /// The id of its cell, if that is known only after open values are found; `cell` is empty until then.
    #[serde(skip)]
    #[schemars(skip)]
    pub cell_id: Option<String>,
    #[serde(skip)]
    #[schemars(skip)]
    /// Where it was written.
    pub origin: Origin,
}

/// What a published run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublishedOutcome {
    /// It had memory enough.
    Fits,
    /// It ran out of memory.
    OutOfMemory,
}

/// A key of which a source says the largest value that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LargestKey {
    /// The longest sample.
    MaxSeqLength,
    /// The largest micro-batch.
    BatchSize,
    /// The largest rank.
    Rank,
}

impl LargestKey {
    /// The key.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxSeqLength => "max_seq_length",
            Self::BatchSize => "batch_size",
            Self::Rank => "rank",
        }
    }
}

/// The memory that a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Bytes of live tensors.
    Allocated,
    /// Memory that the allocator holds.
    Reserved,
    /// Memory that the process holds: its resident set, or the figure of `nvidia-smi`.
    Process,
    /// The source does not say.
    Unstated,
}

/// What a published figure was used for before the prediction is compared with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// It tests the plan: neither a rule of the plan nor an assumption of the spec was taken from it.
    #[default]
    HeldOut,
    /// It was at hand while the plan was written. No record says whether a rule was taken from it.
    Seen,
    /// It corrected the plan, or an assumption of the spec was taken from it.
    Corrected,
    /// Its source calculated it and measured nothing, so the error is of two estimates.
    Estimate,
}

impl Evidence {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Metric {
    /// The word in specs.
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
        parse(&self.value).unwrap_or(f64::NAN) * self.unit().factor()
    }

    /// The unit of the number; an outcome has none.
    pub fn unit(&self) -> Unit {
        // Checked when it was read.
        self.unit.unwrap_or(Unit::Count)
    }

    /// How many digits behind the point were published.
    pub fn decimals(&self) -> usize {
        self.value.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }

    /// The keys of figures that an outcome has, and what it lacks.
    fn check_outcome(&self) -> Option<(&'static str, Mistake)> {
        let keys = [
            ("column", !self.column.is_empty()),
            ("of", self.of.is_some()),
            ("value", !self.value.is_empty()),
            ("values", self.values.is_some()),
            ("unit", self.unit.is_some()),
            ("metric", self.metric.is_some()),
        ];
        let (key, _) = keys.into_iter().find(|(_, is_given)| *is_given)?;
        Some((
            key,
            Mistake::new("an outcome is no figure").help("make the figure an entry of its own"),
        ))
    }

    /// What a figure lacks, or has without an outcome.
    fn check_figure(&self) -> Option<(&'static str, Mistake)> {
        let missing = |key: &str| Some(("", Mistake::new(format!("the key `{key}` is missing"))));
        match (self.column.as_str(), self.unit) {
            ("", _) => missing("column")
                .map(|(key, mistake)| (key, mistake.help("a run that fitted or did not has an `outcome`"))),
            (_, None) => missing("unit"),
            _ if self.largest.is_some() => Some(("largest", Mistake::new("only `outcome: fits` has a largest value"))),
            _ => self.check_unit(),
        }
    }

    /// The mistake in its unit together with `metric` and `of`.
    fn check_unit(&self) -> Option<(&'static str, Mistake)> {
        let wrong = |key, message: &str, help: &str| Some((key, Mistake::new(message).help(help)));
        match (self.unit().dimension(), self.metric, &self.of) {
            (Dimension::Memory, None, _) => wrong(
                "",
                "the key `metric` is missing",
                "`allocated`, `reserved` or `process`; `unstated` if the source does not say",
            ),
            (Dimension::Memory, Some(_), None) | (Dimension::Share, None, Some(_)) => None,
            (_, Some(_), _) => Some(("metric", Mistake::new("only figures of memory have a metric"))),
            (Dimension::Share, None, None) => wrong(
                "unit",
                "a share is one column over another, and `of` names the second",
                "for example `column: trainable_count, of: parameter_count`",
            ),
            (_, _, Some(_)) => wrong("of", "one column over another is a share", "its unit is `%` or `×`"),
            (_, None, None) => None,
        }
    }
}

impl Entry for Published {
    const SECTION: &'static str = "published";
    const PICKED_BY: &'static str = "cell";
    const NEEDS_ONE: bool = true;

    fn check(&self) -> Vec<(String, Mistake)> {
        let source = self.source.trim().is_empty();
        let source = source.then(|| ("source", Mistake::new("what is published needs its source")));
        if let Some(outcome) = self.outcome {
            let largest = self.largest.is_some() && outcome != PublishedOutcome::Fits;
            let largest = largest.then(|| ("largest", Mistake::new("only `outcome: fits` has a largest value")));
            let found = [self.check_outcome(), largest, source].into_iter().flatten();
            return found.map(|(key, mistake)| (key.to_owned(), mistake)).collect();
        }
        let missing = self.values.is_none() && self.value.is_empty() && !self.column.is_empty();
        let missing = missing.then(|| ("", Mistake::new("the key `value` is missing")));
        let value = check_number(&self.value).filter(|_| !self.value.is_empty());
        let value = value.map(|mistake| ("value", mistake));
        let both = self.values.is_some() && !(self.value.is_empty() && self.cell.is_empty());
        let both = both.then(|| {
            (
                "values",
                Mistake::new("the file has the values and their cells; leave `value` and `cell` out"),
            )
        });
        let found = [missing, value, both, source, self.check_figure()]
            .into_iter()
            .flatten();
        found.map(|(key, mistake)| (key.to_owned(), mistake)).collect()
    }

    fn picks(&self) -> bool {
        self.values.is_none()
    }

    fn selection(&mut self) -> &mut Selection {
        &mut self.cell
    }

    fn origin(&mut self) -> &mut Origin {
        &mut self.origin
    }
}

/// The mistake in the text of a figure's number.
pub(super) fn check_number(text: &str) -> Option<Mistake> {
    let mistake = || {
        let message = format!(
            "expected a number such as 255.41 or 1,916,697,600, got {}",
            quoted(text)
        );
        Mistake::new(message).help("the unit has a key of its own")
    };
    parse(text).is_none().then(mistake)
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
