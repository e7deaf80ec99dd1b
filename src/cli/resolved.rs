//! Studies whose open values are found without a run.

use plan::resolve::resolve;
use plan::{Options, PlanError, Planner};
use records::store::StudyDir;
use runner::tried;
use spec::Study;

/// Finds the values that a spec leaves open by prediction, and by the real steps that an earlier run into `dir` took.
///
/// # Errors
/// A cell with such a value cannot be planned.
pub(super) fn resolved(mut study: Study, options: Options, dir: &StudyDir) -> Result<Study, PlanError> {
    if study.cells.iter().any(|study_cell| study_cell.cell.is_open()) {
        let planner = Planner::new(study.roots(), options);
        resolve(
            &mut study,
            &planner,
            |cell| Ok::<_, PlanError>(tried(dir, cell)),
            |_, error| Err(error),
        )?;
    }
    Ok(study)
}
