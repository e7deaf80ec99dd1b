//! A study's own words, for its report.

use serde::Serialize;
use spec::{AnswerSentence, Prose, Study};

use super::claims::{self, BoundClaim};
use super::published::{self, PublishedFigure};

/// The parts of a report that do not come from a frame, but from `study.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct About {
    /// The study's name.
    pub name: String,
    /// The spec's description; empty if there is none.
    pub description: Prose,
    /// The answer of the spec's author.
    #[serde(skip)]
    pub answer: Vec<AnswerSentence>,
    /// The columns of the table to paste; empty for the usual ones.
    #[serde(skip)]
    pub columns: Vec<Prose>,
    /// The keys that the spec's sweep varies.
    #[serde(skip)]
    pub axes: Vec<String>,
    /// The `group_id` of the baseline; `None` for the first group with an ok cell.
    #[serde(skip)]
    pub baseline: Option<String>,
    /// The shell command that made the study; empty if it is not known.
    pub command: String,
    /// The overrides of the spec's cells, as they were given.
    pub overrides: Vec<String>,
    /// True for a report of predictions alone.
    #[serde(skip)]
    pub is_plan: bool,
    /// The published figures, each with its group.
    #[serde(skip)]
    pub published: Vec<PublishedFigure>,
    /// The claims, each with the groups that it is about.
    #[serde(skip)]
    pub claims: Vec<BoundClaim>,
}

impl About {
    /// The parts of a study's report.
    pub fn new(study: &Study) -> Self {
        let baseline = study.cells.iter().find(|planned| study.is_baseline(planned));
        Self {
            name: study.name.clone(),
            description: study.description.clone(),
            answer: study.report.answer.clone(),
            columns: study.report.columns.clone(),
            axes: study.axes.clone(),
            baseline: baseline.map(|planned| planned.cell.group_id()),
            command: study.invocation.command(),
            overrides: study.invocation.laid_over(),
            is_plan: false,
            published: published::bind(study),
            claims: claims::bind(study),
        }
    }
}
