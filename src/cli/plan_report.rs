//! The report of a plan: predictions without records.

use std::path::{Path, PathBuf};

use anyhow::bail;
use plan::advice::{self, CellPlan};
use plan::{CellError, Headroom, Options, Planner};
use rayon::prelude::*;
use records::store::StudyDir;
use report::{About, Template};
use results::frame;
use spec::Study;

use super::print;
use super::study_report::{check, refuse_overwriting, stem, up_to_date, with_or_without_ids};

/// The plans of a study's cells, in their order. That of one cell has several ways to make it fit, others the least.
pub(super) fn plan_cells(study: &Study, planner: &Planner) -> Result<Vec<CellPlan>, CellError> {
    let (cells, is_one) = (study.cells.par_iter(), study.cells.len() == 1);
    cells
        .map(|study_cell| {
            let plan = advice::plan(planner, &study_cell.cell, &study.fit, is_one);
            plan.map_err(|error| CellError::new(study, study_cell, error))
        })
        .collect()
}

/// A report of a plan, before its cells are predicted.
pub(super) struct PlanReport<'a> {
    study: &'a Study,
    template: Template,
    /// The report's file.
    output: PathBuf,
    /// The command that makes the report again.
    command: String,
    /// True if the page has no ids of cells.
    no_ids: bool,
}

impl<'a> PlanReport<'a> {
    /// The report in the `output` that was given, by the option whose name stands beside it, or in the spec's.
    ///
    /// # Errors
    /// There is no place for the report, or it would replace a part of the study.
    pub(super) fn new(
        study: &'a Study,
        template: Template,
        (output, option): (Option<&Path>, &str),
        command: String,
    ) -> anyhow::Result<Self> {
        let Some(output) = output.or(study.report.output.as_deref()) else {
            bail!(
                "the `report` of `{}` names no `output`; give a file: {option}",
                study.invocation.source()
            )
        };
        let dir = StudyDir::new(Path::new("results").join(&study.name));
        refuse_overwriting(output, study, &dir, &template)?;
        Ok(Self {
            study,
            template,
            output: output.to_owned(),
            command,
            no_ids: false,
        })
    }

    /// The report with the ids of its cells, or without.
    pub(super) fn without_ids(self, no_ids: bool) -> Self {
        Self { no_ids, ..self }
    }

    /// Plans the cells, and writes the report or, if `is_check`, checks it. Returns false if the check fails.
    pub(super) fn write_or_check(self, options: Options, is_check: bool) -> anyhow::Result<bool> {
        let Self { study, output, .. } = &self;
        let source = study.invocation.source();
        report::check_study(study)?;
        // Reports are for whole GPUs: their figures stand beside those of runs that had all of one.
        let options = Options {
            headroom: Headroom::None,
            ..options
        };
        let plans = plan_cells(study, &Planner::new(study.roots(), options))?;
        let frame = frame::of_plan(study, plans.iter().map(|cell_plan| Some(&cell_plan.prediction)))?;
        let about = About {
            command: self.command.clone(),
            is_plan: true,
            ..About::new(study)
        };
        let rendered = report::render(&about, &frame, &self.template, &stem(output))?;
        let rendered = with_or_without_ids(rendered, self.no_ids);
        if is_check {
            return check(&rendered, output, Path::new(&source), true);
        }
        let written = report::write(&rendered, output, false)?;
        if written.is_empty() {
            print(&up_to_date(output, Path::new(&source)))?;
        }
        for path in written {
            print(&format!("wrote {}\n", path.display()))?;
        }
        Ok(true)
    }
}
