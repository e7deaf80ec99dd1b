//! A study's own words, for its report.

use serde::Serialize;

use super::claims::{self, BoundClaim};
use super::published::{self, PublishedFigure};
use crate::spec::Study;

/// The parts of a report that do not come from a frame, but from `study.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct About {
    pub name: String,
    /// Empty where the spec has none.
    pub description: String,
    /// The keys that the spec's sweep varies.
    #[serde(skip)]
    pub axes: Vec<String>,
    /// The `group_id` of the cells that the others are compared with; else the first group that has an ok cell.
    #[serde(skip)]
    pub baseline: Option<String>,
    /// The command that the study came from, for a shell; empty where it is not known.
    pub command: String,
    /// What was laid over the spec's cells, as it was given.
    pub overrides: Vec<String>,
    /// What others published, with the groups it belongs to.
    #[serde(skip)]
    pub published: Vec<PublishedFigure>,
    /// What the spec puts to the test, with the groups it is about.
    #[serde(skip)]
    pub claims: Vec<BoundClaim>,
}

impl About {
    pub fn new(study: &Study) -> Self {
        let baseline = study.cells.iter().find(|planned| study.is_baseline(&planned.cell));
        Self {
            name: study.name.clone(),
            description: study.description.clone(),
            axes: study.axes.clone(),
            baseline: baseline.map(|planned| planned.cell.group_id()),
            command: study.invocation.command(),
            overrides: study.invocation.laid_over(),
            published: published::bind(study),
            claims: claims::bind(study),
        }
    }
}
