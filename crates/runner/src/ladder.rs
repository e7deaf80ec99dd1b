//! The cells that follow one that ran out of memory.

use cell::Cell;
use plan::{Planner, fall_back};
use records::Status;
use records::store::{StudyDir, read_record};
use spec::{Fallback, Lineage, OnOom, Rung, Study, StudyCell};

use super::options::Options;

/// Adds the cells to a study that follow from the records in its folder, unless the run makes all records again.
///
/// Nothing else is kept of a ladder: a run that was killed finds its way down again.
pub fn add_fallbacks(study: &mut Study, planner: &Planner, options: &Options) {
    let (dir, mut index) = (StudyDir::new(&options.results), 0);
    let leaves_out = options.skip_oversize || study.skip_larger;
    if options.fresh || study.on_oom == OnOom::Record {
        return;
    }
    while let Some(study_cell) = study.cells.get(index) {
        let status = read_record(&dir.cell(&study_cell.id))
            .ok()
            .flatten()
            .map(|record| record.status);
        let follows = match status {
            Some(Status::Oom) => true,
            Some(Status::Oversize) => leaves_out || study_cell.is_fallback(),
            _ => false,
        };
        if follows {
            follow(study, planner, index);
        }
        index += 1;
    }
}

/// Adds the cell that follows the one at `index`, one rung down. Returns its index; `None` if there is no rung left, or
/// if the study has that cell.
pub fn follow(study: &mut Study, planner: &Planner, index: usize) -> Option<usize> {
    let study_cell = study
        .cells
        .get(index)
        .filter(|study_cell| study_cell.cell.engine().is_some())?;
    let (cell, step) = next(planner, study_cell, &study.on_oom)?;
    let id = cell.id();
    if study.cells.iter().any(|study_cell| study_cell.id == id) {
        return None;
    }
    let fallback = Fallback {
        of: study_cell.id.clone(),
        step,
    };
    study.add_fallback(cell, fallback);
    Some(study.cells.len() - 1)
}

/// The first rung that changes the cell, from the one that it came by on.
fn next(planner: &Planner, study_cell: &StudyCell, on_oom: &OnOom) -> Option<(Cell, Rung)> {
    let OnOom::Ladder(rungs) = on_oom else {
        return None;
    };
    let own = match &study_cell.lineage {
        Lineage::Fallback(fallback) => rungs.iter().position(|rung| *rung == fallback.step).unwrap_or(0),
        Lineage::Written | Lineage::Resolved(_) => 0,
    };
    rungs[own..].iter().find_map(|&rung| {
        // A rung that cannot be planned is one that the cell does not have.
        let cell = fall_back(planner, &study_cell.cell, rung).ok().flatten()?;
        cell.validate().is_ok().then_some((cell, rung))
    })
}
