//! A study: a spec's cells and all that is not part of a cell.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::cell::Cell;
use super::claim::Claim;
use super::invocation::Invocation;
use super::published::Published;
use super::selection::{self, Selection};

/// A spec, resolved: the layers merged, the sweep expanded, every cell checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Safe as the name of a folder.
    pub name: String,
    pub description: String,
    /// The folder of the spec, absolute: input paths in the cells are relative to it.
    pub directory: PathBuf,
    /// The spec's file name.
    pub file: String,
    /// In the order of the sweep, its last axis varying fastest, the repeats of a cell next to each other; then the
    /// included ones.
    pub cells: Vec<StudyCell>,
    /// How many seeds each cell is run with.
    pub repeats: usize,
    pub limits: Limits,
    pub record: RecordSpec,
    pub report: ReportSpec,
    /// Figures of others, to be shown beside what is measured.
    pub published: Vec<Published>,
    /// Sentences that the study puts to the test.
    pub claims: Vec<Claim>,
    /// The keys that vary, dotted.
    pub axes: Vec<String>,
    /// What the user should know: axes that an override has fixed, for example.
    pub notes: Vec<String>,
    /// The command that the study came from.
    pub invocation: Invocation,
}

/// A cell of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyCell {
    pub id: String,
    pub cell: Cell,
    /// The cell's value for each of the study's axes, as in [`Cell::to_map`]; null where the cell has none.
    pub axes: IndexMap<String, Json>,
}

/// What is not part of a cell and can end it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How long a cell may take, such as 10m or 1h 30m; default: as long as it takes.
    #[serde(with = "super::duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("pattern" = r"^\s*([0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+$"))]
    pub timeout: Option<Duration>,
}

/// What is kept of a run beside its figures; changes neither them nor what a cell is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordSpec {
    /// Every allocation and release of tensor memory, with its time, category, phase and module; for the report's curves,
    /// peaks and tensors, and for `expctl export`. Needs the CPU. Default: false.
    pub timeline: bool,
    /// How many steps the timeline has, from the first; the loading before them is always part of it. Default: 3.
    #[schemars(range(min = 1))]
    pub timeline_steps: usize,
}

impl Default for RecordSpec {
    /// The first step makes the optimizer's state; those after it are like any other.
    fn default() -> Self {
        Self {
            timeline: false,
            timeline_steps: 3,
        }
    }
}

impl RecordSpec {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the results are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSpec {
    /// A template that comes with expctl, or the path of one, relative to the spec.
    pub template: String,
    /// The Markdown file, relative to the current directory.
    pub output: Option<PathBuf>,
    /// Values that name the cell which the others are compared with, by dotted key.
    pub baseline: Selection,
}

/// The templates that come with expctl.
pub const TEMPLATES: [&str; 5] = ["comparison", "method_comparison", "profiler_vs_epoch", "claims", "plan"];

impl Default for ReportSpec {
    fn default() -> Self {
        Self {
            template: TEMPLATES[0].into(),
            output: None,
            baseline: Selection::new(),
        }
    }
}

impl Study {
    /// Whether only their seed tells some cells apart, and it is no axis that is shown anyway.
    pub fn shows_seeds(&self) -> bool {
        self.repeats > 1 && !self.axes.iter().any(|axis| axis == "seed")
    }

    /// The cells that a selection picks, by their `group_id`: each stands for its repeats.
    pub fn groups(&self, selection: &Selection) -> IndexSet<String> {
        let chosen = self
            .cells
            .iter()
            .filter(|planned| selection::holds(selection, &planned.cell));
        chosen.map(|planned| planned.cell.group_id()).collect()
    }

    /// Whether the report compares other cells with this one (or with its repeats). Never where the spec names no baseline.
    pub fn is_baseline(&self, cell: &Cell) -> bool {
        let baseline = &self.report.baseline;
        !baseline.is_empty() && selection::holds(baseline, cell)
    }
}
