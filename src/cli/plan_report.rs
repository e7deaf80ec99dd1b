//! The report of a plan: predictions without records.

use std::borrow::Borrow;
use std::path::Path;

use anyhow::bail;
use rayon::prelude::*;

use super::print;
use super::study_report::{check, stem, up_to_date};
use crate::plan::{Options, PlanError, Planner};
use crate::report::{self, About, Template};
use crate::results::frame;
use crate::results::prediction::Prediction;
use crate::spec::Study;

/// The predictions of a study's cells, in their order.
pub(super) fn predict(study: &Study) -> Result<Vec<Prediction>, PlanError> {
    let planner = Planner::new(&study.directory, Options::default());
    let cells = study.cells.par_iter();
    cells.map(|planned| planner.predict(&planned.cell)).collect()
}

/// How a plan is reported.
pub(super) struct PlanReport<'a> {
    pub(super) template: Template,
    /// The Markdown file; `None` for the one that the spec names.
    pub(super) output: Option<&'a Path>,
    /// True to write nothing.
    pub(super) check: bool,
}

impl PlanReport<'_> {
    /// Writes or checks the report. Returns false if a check fails.
    pub(super) fn write_or_check<P: Borrow<Prediction>>(
        &self,
        study: &Study,
        predictions: &[P],
        spec: &Path,
    ) -> anyhow::Result<bool> {
        let Some(output) = self.output.or(study.report.output.as_deref()) else {
            bail!(
                "the `report` of `{}` names no `output`; give a file: --report=FILE",
                spec.display()
            )
        };
        report::check_study(study)?;
        let frame = frame::of_plan(study, predictions.iter().map(|prediction| Some(prediction.borrow())))?;
        let about = About {
            command: study.invocation.command_of("plan", &["--report"]),
            is_plan: true,
            ..About::new(study)
        };
        let rendered = report::render(&about, &frame, &self.template, &stem(output))?;
        if self.check {
            return check(&rendered, output, spec, true);
        }
        let written = report::write(&rendered, output)?;
        if written.is_empty() {
            print(&up_to_date(output, spec))?;
        }
        for path in written {
            print(&format!("wrote {}\n", path.display()))?;
        }
        Ok(true)
    }
}
