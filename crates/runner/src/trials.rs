//! Real steps that find what a spec leaves open, before the first cell has its id.

use std::collections::HashMap;

use base::text::with_causes;
use cell::Cell;
use plan::Planner;
use plan::resolve::{self, Trial};
use records::store::{CellDir, StudyDir, read_record};
use records::{Record, Status};
use spec::{Study, StudyCell};

use super::attempt;
use super::error::RunError;
use super::events::{Events, end_at_once};
use super::options::Options;
use super::progress::Progress;
use super::status::is_lost;

/// Resolves a study before a run. Real steps of earlier runs count, unless `fresh` is true. Returns the reasons why the
/// values of some cells cannot be found, by the cells' ids, if their samples end the process that reads them: those stay
/// open.
///
/// # Errors
/// A cell cannot be planned, or a step's process cannot be started.
pub(super) fn resolve(
    study: &mut Study,
    planner: &Planner,
    dir: &StudyDir,
    options: &Options,
    events: &mut Events,
    progress: &mut dyn Progress,
) -> Result<HashMap<String, String>, RunError> {
    let mut unresolved = HashMap::new();
    if !study.cells.iter().any(|study_cell| study_cell.cell.is_open()) {
        return Ok(unresolved);
    }
    let notes = study.notes.len();
    let about = study.clone();
    let failed = |cells: &[StudyCell], error| match error {
        RunError::Resolve(error) if error.is_of_ended_process() => {
            let reason = with_causes(&*error);
            unresolved.extend(cells.iter().map(|study_cell| (study_cell.id.clone(), reason.clone())));
            Ok(())
        }
        error => Err(error),
    };
    let tried = |cell: &Cell| {
        let known = tried(dir, cell).filter(|_| !options.fresh);
        if known.is_some() || cell.engine().is_none() {
            return Ok(known);
        }
        progress.note(&format!("one real step with batch_size {}", cell.batch_size));
        let trial = real_step((cell, &dir.trial(&cell.id())), &about, options, events, progress)?;
        if let Some(signal) = events.interrupted() {
            end_at_once(signal);
        }
        Ok(trial)
    };
    resolve::resolve(study, planner, tried, failed)?;
    for note in &study.notes[notes..] {
        progress.note(note);
    }
    Ok(unresolved)
}

/// A real step with a cell, in as many attempts as the study allows. Returns `None` if it says nothing of memory or of
/// time.
fn real_step(
    cell: (&Cell, &CellDir),
    study: &Study,
    options: &Options,
    events: &mut Events,
    progress: &mut dyn Progress,
) -> Result<Option<Trial>, RunError> {
    for left in (0..=study.limits.retries).rev() {
        let Some(record) = attempt::trial(cell, study, options, events, progress)? else {
            return Ok(None);
        };
        if let Some(trial) = outcome(&record) {
            return Ok(Some(trial));
        }
        let reason = record.reason.unwrap_or_default();
        if events.interrupted().is_some() {
            return Ok(None);
        }
        let is_tried_again = is_lost(record.status) && left > 0;
        let what_follows = match is_tried_again {
            true => "it is tried again",
            false => "it says nothing of memory, so the prediction decides",
        };
        progress.note(&format!("the real step: {reason}; {what_follows}"));
        if !is_tried_again {
            break;
        }
    }
    Ok(None)
}

/// The outcome of an earlier run's real step with a cell.
pub fn tried(dir: &StudyDir, cell: &Cell) -> Option<Trial> {
    outcome(&read_record(&dir.trial(&cell.id())).ok().flatten()?)
}

/// `None` if the step ended in a way that says nothing of memory or of time.
fn outcome(record: &Record) -> Option<Trial> {
    let fits = match record.status {
        Status::Ok => true,
        // A cell cannot take less time than its largest step.
        Status::Oom | Status::Timeout => false,
        Status::Killed | Status::Lost | Status::Failed | Status::Oversize => return None,
    };
    Some(Trial {
        fits,
        seconds: record.wall_seconds,
    })
}
