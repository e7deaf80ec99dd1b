//! The values that a spec asks a search to try.

use base::text::to_flow_yaml;
use spec::{FitSpec, StudyCell};
use techniques::{TECHNIQUES, Technique};

use crate::{PlanError, Planner};

/// Makes sure that each value to try can be planned in one of the cells. A search leaves out what cannot be planned.
///
/// # Errors
/// The first value with which no cell can be planned, and the reason.
pub fn check_values(planner: &Planner, cells: &[StudyCell], fit: &FitSpec) -> Result<(), PlanError> {
    for technique in TECHNIQUES {
        for value in fit.vary.get(technique.key).into_iter().flatten().flatten() {
            if let Some(error) = refusal(planner, cells, technique, value, fit) {
                return Err(PlanError::Value {
                    key: technique.key,
                    value: to_flow_yaml(value),
                    error: Box::new(error),
                });
            }
        }
    }
    Ok(())
}

/// The reason why no cell can be planned with a value; `None` if one can, alone or perhaps with another change.
fn refusal(
    planner: &Planner,
    cells: &[StudyCell],
    technique: &Technique,
    value: &serde_json::Value,
    fit: &FitSpec,
) -> Option<PlanError> {
    let mut first = None;
    for study_cell in cells {
        let changed = technique.changed(&study_cell.cell, value)?;
        // What is invalid was found when the spec was read, unless another cell or another change mends it.
        changed.validate().ok()?;
        let error = planner.needed_at_least(&changed).err()?;
        let is_mended = matches!(&error, PlanError::Gpu(invalid) if fit.may_mend(technique, invalid));
        // A cell that cannot be planned as it is has an error of its own.
        if is_mended || planner.needed_at_least(&study_cell.cell).is_err() {
            return None;
        }
        first.get_or_insert(error);
    }
    first
}
