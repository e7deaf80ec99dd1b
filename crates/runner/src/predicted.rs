//! The cells without an engine: they are predicted and never run.

use std::collections::HashMap;
use std::fs;

use base::text::with_causes;
use plan::{CellError, Planner, advice};
use rayon::prelude::*;
use records::store::{StudyDir, make_room, write_cell_yaml, write_prediction};
use spec::{Study, StudyCell};

use super::error::RunError;

/// Predicts the memory of all of them, and keeps the predictions in their folders. Returns the reasons of those whose
/// samples end the process that reads them, with their places. `unresolved` has those of cells that stayed open for it.
///
/// # Errors
/// A cell cannot be planned, or a prediction cannot be written.
pub(super) fn plan(
    study: &Study,
    planner: &Planner,
    dir: &StudyDir,
    unresolved: &HashMap<String, String>,
) -> Result<Vec<String>, RunError> {
    let cells: Vec<&StudyCell> = study
        .cells
        .iter()
        .filter(|study_cell| study_cell.cell.engine().is_none())
        .collect();
    let reasons = cells.into_par_iter().map(|study_cell| {
        let cell_dir = dir.cell(&study_cell.id);
        let folder = |source| RunError::Folder {
            path: cell_dir.path().to_path_buf(),
            source,
        };
        fs::create_dir_all(cell_dir.path()).map_err(folder)?;
        write_cell_yaml(&cell_dir, &study_cell.cell.to_yaml())?;
        if let Some(reason) = unresolved.get(&study_cell.id) {
            make_room(&cell_dir.prediction()).map_err(folder)?;
            return Ok(Some(format!("{}: {reason}", study_cell.id)));
        }
        match advice::predict(planner, &study_cell.cell, &study.fit) {
            Ok(prediction) => {
                write_prediction(&cell_dir, &prediction)?;
                Ok(None)
            }
            Err(error) if !error.is_of_ended_process() => {
                Err(RunError::Plan(Box::new(CellError::new(study, study_cell, error))))
            }
            Err(error) => {
                make_room(&cell_dir.prediction()).map_err(folder)?;
                Ok(Some(with_causes(&CellError::new(study, study_cell, error))))
            }
        }
    });
    let reasons: Vec<Option<String>> = reasons.collect::<Result<_, RunError>>()?;
    Ok(reasons.into_iter().flatten().collect())
}
