//! The cells without an engine: they are predicted and never run.

use std::fs;

use plan::{CellError, Planner, advice};
use rayon::prelude::*;
use records::store::{StudyDir, write_cell_yaml, write_prediction};
use spec::{Study, StudyCell};

use super::error::RunError;

/// Predicts the memory of all of them, and keeps the predictions in their folders.
///
/// # Errors
/// A cell cannot be planned, or a prediction cannot be written.
pub(super) fn plan(study: &Study, planner: &Planner, dir: &StudyDir) -> Result<(), RunError> {
    let cells: Vec<&StudyCell> = study
        .cells
        .iter()
        .filter(|study_cell| study_cell.cell.engine().is_none())
        .collect();
    cells.into_par_iter().try_for_each(|study_cell| {
        let prediction = advice::predict(planner, &study_cell.cell, &study.fit)
            .map_err(|error| RunError::Plan(Box::new(CellError::new(study, study_cell, error))))?;
        let cell_dir = dir.cell(&study_cell.id);
        fs::create_dir_all(cell_dir.path()).map_err(|source| RunError::Folder {
            path: cell_dir.path().to_path_buf(),
            source,
        })?;
        write_cell_yaml(&cell_dir, &study_cell.cell.to_yaml())?;
        Ok(write_prediction(&cell_dir, &prediction)?)
    })
}
