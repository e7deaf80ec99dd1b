//! Accuracy of predictions: published figures of several studies, each with its prediction, by what they say of the
//! plan.

use std::path::PathBuf;

use base::quantile;
use base::text::Unit;
use indexmap::IndexMap;
use options::Stack;
use polars_core::prelude::DataFrame;
use serde::Serialize;
use spec::Evidence;

use super::about::About;
use super::axes::axes;
use super::entry::entries;
use super::error::ReportError;
use super::group::groups;
use super::outcomes::{self, Agreement, ComparedOutcome};
use super::published::{self, ComparedFigure};
use super::template::Template;
use super::{figures, filters, markdown};

/// A study with a frame of predictions.
#[derive(Debug)]
pub struct PlannedStudy {
    /// The spec's path, as it was given.
    pub spec: String,
    /// The path of the study's report, if it has one.
    pub report: Option<PathBuf>,
    /// The study's name, description and published figures.
    pub about: About,
    /// The frame, with the columns `predicted_…`.
    pub cells: DataFrame,
}

/// A published figure and its prediction.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The study's name.
    pub study: String,
    /// The cell by what varies in its study.
    pub label: String,
    /// The cell's id.
    pub cell_id: String,
    /// The section of the page that the row belongs to.
    pub section: Section,
    /// The source's name for the figure.
    pub name: Option<String>,
    /// The column of the frame, without the prefix `predicted_`.
    pub column: String,
    /// The column that `column` is divided by.
    pub of: Option<String>,
    /// The digits that were published.
    pub value: String,
    /// The unit of `value`.
    pub unit: Unit,
    decimals: usize,
    /// True if the published number has more decimals than are shown.
    is_rounded: bool,
    /// In bytes, seconds or ones.
    published: f64,
    /// The memory that the source counted.
    pub metric: Option<&'static str>,
    /// In bytes, seconds or ones.
    pub predicted: Option<f64>,
    /// Predicted over published, less one.
    pub error: Option<f64>,
    /// The predicted range, if the figure has one.
    pub range: Option<Range>,
    /// Number in [`Accuracy::sources`], from 1.
    pub source: usize,
    /// The spec's note on the figure.
    pub note: Option<String>,
}

/// A published outcome and the plan's verdict.
#[derive(Debug, Serialize)]
pub struct OutcomeRow {
    /// The study's name.
    pub study: String,
    /// The cell by what varies in its study.
    pub label: String,
    /// The cell's id.
    pub cell_id: String,
    /// The section of the page that it would belong to as a figure.
    pub section: Section,
    /// The source's name for the run.
    pub name: Option<String>,
    /// `fits` or `out of memory`.
    pub published: &'static str,
    /// `fits`, `may not fit` or `does not fit`.
    pub predicted: Option<&'static str>,
    /// The part of the budget that is needed.
    pub share: Option<f64>,
    /// The comparison.
    pub agreement: Agreement,
    /// Number in [`Accuracy::sources`], from 1.
    pub source: usize,
    /// The spec's note on it.
    pub note: Option<String>,
}

/// A predicted range, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The least that is possible.
    pub low: f64,
    /// The most that is possible.
    pub high: f64,
    /// True if the published figure is within, as exactly as it was published.
    pub holds: bool,
}

/// The published figures that lie in their predicted ranges.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct InRange {
    rows: usize,
    of: usize,
}

impl InRange {
    /// The count; `None` if no figure has a range.
    fn of(ranges: impl Iterator<Item = Range>) -> Option<Self> {
        let holds: Vec<bool> = ranges.map(|range| range.holds).collect();
        (!holds.is_empty()).then(|| Self {
            rows: holds.iter().filter(|holds| **holds).count(),
            of: holds.len(),
        })
    }
}

/// A section of the page: rows whose errors say the same of the plan. The sections are in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Figures that test the plan.
    HeldOut,
    /// Figures that were at hand while the plan was written.
    Seen,
    /// Figures that corrected the plan.
    Corrected,
    /// Figures that their sources calculated.
    Estimate,
    /// Figures of our own trainer, which its ledger counted.
    OurTrainer,
}

impl Section {
    const ALL: [Self; 5] = [
        Self::HeldOut,
        Self::Seen,
        Self::Corrected,
        Self::Estimate,
        Self::OurTrainer,
    ];

    fn of(stack: Stack, evidence: Evidence) -> Self {
        match (stack, evidence) {
            (Stack::Candle, _) => Self::OurTrainer,
            (Stack::Torch, Evidence::HeldOut) => Self::HeldOut,
            (Stack::Torch, Evidence::Seen) => Self::Seen,
            (Stack::Torch, Evidence::Corrected) => Self::Corrected,
            (Stack::Torch, Evidence::Estimate) => Self::Estimate,
        }
    }
}

/// The rows of a section, summarised.
#[derive(Debug, Serialize)]
struct Part {
    section: Section,
    /// The errors of all figures of memory. Counts of weights would hide them.
    memory: Option<Errors>,
    in_range: Option<InRange>,
    summaries: Vec<Summary>,
}

/// The errors of a study's figures of one column, in one section.
#[derive(Debug, Serialize)]
struct Summary {
    study: String,
    column: String,
    in_range: Option<InRange>,
    #[serde(flatten)]
    errors: Errors,
}

/// A study of the page.
#[derive(Debug, Serialize)]
struct Named {
    name: String,
    spec: String,
    report: Option<PathBuf>,
}

/// A summary of errors. All but the worst are of absolute errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Errors {
    rows: usize,
    mean: f64,
    median: f64,
    /// With its sign.
    worst: f64,
}

impl Errors {
    /// The summary of these errors; `None` without one.
    fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let worst = *errors.last()?;
        let sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
        Some(Self {
            rows: sizes.len(),
            mean: sizes.iter().sum::<f64>() / sizes.len() as f64,
            median: quantile(&sizes, 0.5),
            worst,
        })
    }
}

/// All published figures of some studies with their predictions.
#[derive(Debug, Default, Serialize)]
pub struct Accuracy {
    /// The sections that have rows.
    parts: Vec<Part>,
    /// All figures with a range.
    in_range: Option<InRange>,
    /// The worst first; rows without a prediction last.
    pub rows: Vec<Row>,
    /// Published outcomes of plans, those that are not as predicted first.
    pub outcomes: Vec<OutcomeRow>,
    /// The sources of the figures, each once.
    pub sources: Vec<String>,
    studies: Vec<Named>,
}

impl Accuracy {
    /// Compares the figures of all studies.
    ///
    /// # Errors
    /// A frame that cannot be read, or a wrong expression in a text.
    pub fn new(studies: Vec<PlannedStudy>) -> Result<Self, ReportError> {
        let mut accuracy = Self::default();
        for study in studies {
            let rows = entries(&study.cells)?;
            let about = figures::write_all(&study.about, &rows)?;
            let axes = axes(&rows, &about.axes);
            let groups = groups(&rows, &axes);
            for figure in published::compare(&about.published, &groups) {
                let row = accuracy.row(&about.name, figure);
                accuracy.rows.push(row);
            }
            for outcome in outcomes::compare(&about.published, &groups) {
                let row = accuracy.outcome(&about.name, outcome);
                accuracy.outcomes.push(row);
            }
            accuracy.studies.push(Named {
                name: about.name,
                spec: study.spec,
                report: study.report,
            });
        }
        accuracy.parts = Section::ALL
            .into_iter()
            .filter_map(|section| part(section, &accuracy.rows))
            .collect();
        accuracy.in_range = InRange::of(accuracy.rows.iter().filter_map(|row| row.range));
        let is_other = |row: &OutcomeRow| match row.agreement {
            Agreement::Other => 0,
            Agreement::Undecided => 1,
            Agreement::Missing => 2,
            Agreement::Same => 3,
        };
        accuracy.outcomes.sort_by_key(is_other);
        let distance = |row: &Row| row.error.map_or(-1.0, f64::abs);
        accuracy.rows.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        Ok(accuracy)
    }

    /// The Markdown page: each section with its errors by study and figure and its worst rows; the studies and the
    /// sources.
    ///
    /// # Errors
    /// A mistake in the template.
    pub fn page(&self) -> Result<String, ReportError> {
        let template = Template::BuiltIn("accuracy");
        let (mut env, name) = template.environment(0)?;
        filters::add(&mut env, 6);
        let page = env
            .get_template(&name)
            .and_then(|loaded| loaded.render(minijinja::value::Serde(self)))
            .map_err(|error| ReportError::Template(template.explain(&error)))?;
        Ok(markdown::tidy(&page))
    }

    /// The number of a source, from 1.
    fn source(&mut self, source: &str) -> usize {
        let known = self.sources.iter().position(|known| *known == source);
        let index = known.unwrap_or_else(|| {
            self.sources.push(source.to_owned());
            self.sources.len() - 1
        });
        index + 1
    }

    fn outcome(&mut self, study: &str, outcome: ComparedOutcome) -> OutcomeRow {
        OutcomeRow {
            study: study.to_owned(),
            label: outcome.group.label.clone(),
            cell_id: outcome.group.cells[0].text("cell_id").unwrap_or_default().to_owned(),
            section: Section::of(outcome.group.stack(), outcome.evidence),
            source: self.source(&outcome.source),
            name: outcome.name,
            published: outcome.published,
            predicted: outcome.predicted,
            share: outcome.share,
            agreement: outcome.agreement,
            note: outcome.note,
        }
    }

    fn row(&mut self, study: &str, figure: ComparedFigure) -> Row {
        let source = self.source(&figure.source);
        Row {
            study: study.to_owned(),
            label: figure.group.label.clone(),
            section: Section::of(figure.group.stack(), figure.evidence),
            cell_id: figure.group.cells[0].text("cell_id").unwrap_or_default().to_owned(),
            error: error(&figure),
            range: range(&figure),
            predicted: figure.predicted.map(|stat| stat.mean),
            name: figure.name,
            column: figure.column,
            of: figure.of,
            value: figure.value,
            unit: figure.unit,
            decimals: figure.decimals,
            is_rounded: figure.is_rounded,
            published: figure.published,
            metric: figure.metric,
            source,
            note: figure.note,
        }
    }
}

fn error(figure: &ComparedFigure) -> Option<f64> {
    let predicted = figure.predicted?.mean;
    (figure.published != 0.0).then(|| predicted / figure.published - 1.0)
}

/// The predicted range of a figure that is not known exactly. A process holds more than PyTorch's allocator does, so
/// that its size is not in the range of what is reserved.
fn range(figure: &ComparedFigure) -> Option<Range> {
    let columns = match (figure.column.as_str(), &figure.of) {
        ("allocated_peak_bytes", None) => ["predicted_allocated_low_bytes", "predicted_allocated_high_bytes"],
        ("reserved_peak_bytes", None) if figure.metric != Some("process") => {
            ["predicted_reserved_low_bytes", "predicted_reserved_high_bytes"]
        }
        ("process_peak_bytes", None) if figure.group.stack() == Stack::Torch => {
            ["predicted_needed_low_bytes", "predicted_needed_high_bytes"]
        }
        _ => return None,
    };
    let [low, high] = columns.map(|column| figure.group.cells[0].number(column));
    let (low, high) = (low?, high?);
    if low == high {
        return None;
    }
    // The source may have rounded the figure by half a unit of its last decimal.
    let decimals = figure.value.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let rounded = figure.unit.factor() * 0.5 / 10_f64.powi(decimals as i32);
    let holds = low <= figure.published + rounded && figure.published - rounded <= high;
    Some(Range { low, high, holds })
}

/// The summary of a section; `None` if it has no rows.
fn part(section: Section, rows: &[Row]) -> Option<Part> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.section == section).collect();
    let memory = rows.iter().filter(|row| row.metric.is_some());
    (!rows.is_empty()).then(|| Part {
        section,
        memory: Errors::of(memory.filter_map(|row| row.error)),
        in_range: InRange::of(rows.iter().filter_map(|row| row.range)),
        summaries: summaries(&rows),
    })
}

/// The errors by study and column, in the order of the rows. Shares of another column are left out.
fn summaries(rows: &[&Row]) -> Vec<Summary> {
    let mut columns: IndexMap<(&str, &str), Vec<&Row>> = IndexMap::new();
    for row in rows.iter().filter(|row| row.of.is_none()) {
        columns.entry((&row.study, &row.column)).or_default().push(row);
    }
    let summary = |((study, column), rows): ((&str, &str), Vec<&Row>)| {
        Some(Summary {
            study: study.to_owned(),
            column: column.to_owned(),
            in_range: InRange::of(rows.iter().filter_map(|row| row.range)),
            errors: Errors::of(rows.iter().filter_map(|row| row.error))?,
        })
    };
    columns.into_iter().filter_map(summary).collect()
}
