//! The cells of PyTorch's stack: they are planned and never run.

use std::fs;

use plan::{CellError, Planner, advice};
use rayon::prelude::*;
use records::store::{StudyDir, write_if_changed, write_prediction};
use spec::{Study, StudyCell};

use super::error::RunError;

/// Predicts the memory of all cells of PyTorch's stack, and keeps the predictions in their folders.
///
/// # Errors
/// A cell cannot be planned, or a prediction cannot be written.
pub(super) fn plan(study: &Study, planner: &Planner, dir: &StudyDir) -> Result<(), RunError> {
    let cells: Vec<&StudyCell> = study.cells.iter().filter(|planned| planned.is_planned()).collect();
    cells.into_par_iter().try_for_each(|planned| {
        let prediction = advice::predict(planner, &planned.cell, &study.fit)
            .map_err(|error| RunError::Plan(Box::new(CellError::new(study, planned, error))))?;
        let cell_dir = dir.cell(&planned.id);
        fs::create_dir_all(cell_dir.path()).map_err(|source| RunError::Folder {
            path: cell_dir.path().to_path_buf(),
            source,
        })?;
        write_if_changed(&cell_dir.cell_yaml(), planned.cell.to_yaml().as_bytes())?;
        Ok(write_prediction(&cell_dir, &prediction)?)
    })
}
