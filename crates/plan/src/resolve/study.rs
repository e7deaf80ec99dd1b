//! The open cells of a study.

use std::collections::HashSet;

use base::text::{counted, quoted, to_flow_yaml};
use cell::Cell;
use options::{ByteSize, Checkpointing};
use spec::{Lineage, Resolved, Study, StudyCell, Trials};

use super::batch::{Certainty, Found, Search};
use super::blocks::least_recomputation;
use super::trial::Trial;
use crate::{PlanError, Planner};

/// Finds the values that the cells of `study` leave open. `tried` takes a real step with a cell, or says how an earlier
/// one ended; `None` if there is none. `failed` is told of repeats that cannot be planned or tried, which stay open.
/// Repeats get the same values. Of cells that come to the same the first one stays.
///
/// # Errors
/// Those of `failed`.
pub fn resolve<E: From<PlanError>>(
    study: &mut Study,
    planner: &Planner,
    mut tried: impl FnMut(&Cell) -> Result<Option<Trial>, E>,
    mut failed: impl FnMut(&[StudyCell], E) -> Result<(), E>,
) -> Result<(), E> {
    let mut first = 0;
    while first < study.cells.len() {
        let group = study.cells[first].asked().group_id();
        let repeats = study.cells[first..].iter();
        let count = repeats
            .take_while(|study_cell| study_cell.asked().group_id() == group)
            .count();
        let repeats = &mut study.cells[first..first + count];
        if let Err(error) = resolve_repeats(repeats, planner, &mut tried, &mut study.notes) {
            failed(repeats, error)?;
        }
        first += count;
    }
    merge(study);
    bind_figures(study);
    Ok(())
}

/// Finds what the repeats of one cell leave open.
fn resolve_repeats<E: From<PlanError>>(
    repeats: &mut [StudyCell],
    planner: &Planner,
    tried: &mut dyn FnMut(&Cell) -> Result<Option<Trial>, E>,
    notes: &mut Vec<String>,
) -> Result<(), E> {
    let cells: Vec<Cell> = repeats.iter().map(|study_cell| study_cell.asked().clone()).collect();
    if let Some(asked) = cells[0].auto_batch_size {
        let search = Search {
            planner,
            cells: &cells,
            tried,
            trials: Trials::default(),
        };
        let found = search.run(asked)?;
        notes.push(note(&cells[0], "auto_batch_size", &words(&found)));
        for (study_cell, asked) in repeats.iter_mut().zip(cells) {
            let cell = Cell {
                batch_size: found.batch_size,
                gradient_accumulation_steps: found.gradient_accumulation_steps,
                auto_batch_size: None,
                ..asked.clone()
            };
            set(study_cell, cell, asked, found.trials);
        }
    } else if let Checkpointing::Auto(ByteSize(bytes)) = cells[0].gradient_checkpointing {
        let found = least_recomputation(planner, &cells, bytes)?;
        // Blocks that do not recompute have no inputs to offload.
        let keeps_none = found == Checkpointing::None && cells[0].offload.checkpoints;
        let mut words = to_flow_yaml(&serde_json::to_value(&found).unwrap_or_default());
        if keeps_none {
            words += ", so offload.checkpoints is left out";
        }
        notes.push(note(&cells[0], "gradient_checkpointing", &words));
        for (study_cell, asked) in repeats.iter_mut().zip(cells) {
            let mut cell = Cell {
                gradient_checkpointing: found.clone(),
                ..asked.clone()
            };
            cell.offload.checkpoints &= !keeps_none;
            set(study_cell, cell, asked, Trials::default());
        }
    }
    Ok(())
}

/// Binds the published figures of cells that had no id before their values were found.
fn bind_figures(study: &mut Study) {
    let (cells, notes) = (&study.cells, &mut study.notes);
    study.published.retain_mut(|published| {
        let Some(id) = published.cell_id.take() else {
            return true;
        };
        let found = cells.iter().find(|study_cell| study_cell.id == id);
        match found {
            Some(study_cell) => published.cell = study_cell.selection(),
            None => notes.push(format!(
                "{}: the study has no cell {}, so its figure is left out",
                published.column,
                quoted(&id)
            )),
        }
        found.is_some()
    });
}

fn set(study_cell: &mut StudyCell, cell: Cell, asked: Cell, trials: Trials) {
    study_cell.id = cell.id();
    study_cell.cell = cell;
    study_cell.lineage = Lineage::Resolved(Box::new(Resolved { asked, trials }));
}

/// Leaves out cells that come to the same as an earlier one.
fn merge(study: &mut Study) {
    let mut known = HashSet::new();
    let before = study.cells.len();
    study.cells.retain(|study_cell| known.insert(study_cell.id.clone()));
    let merged = before - study.cells.len();
    if merged > 0 {
        let cells = counted(merged, "cell");
        study
            .notes
            .push(format!("{cells} came to the same as another and are left out"));
    }
}

fn note(asked: &Cell, key: &str, found: &str) -> String {
    format!("{key}: {} is {found}", to_flow_yaml(&asked.value(key)))
}

fn words(found: &Found) -> String {
    let Found {
        batch_size,
        gradient_accumulation_steps,
        trials,
        certainty,
    } = found;
    let steps = counted(trials.count as usize, "real step");
    let way = match (certainty, trials.count) {
        (Certainty::Fits, 0) => "by prediction".to_owned(),
        (Certainty::Fits, _) => format!("after {steps}"),
        (Certainty::Untried, _) => format!("by prediction, after {steps} that did not fit"),
        (Certainty::Smallest, 0) => "the smallest, which does not fit by prediction".to_owned(),
        (Certainty::Smallest, _) => format!("the smallest, after {steps}; none fitted"),
    };
    format!("batch_size: {batch_size}, gradient_accumulation_steps: {gradient_accumulation_steps}, {way}")
}
