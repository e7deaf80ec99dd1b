//! Real steps that find what a spec leaves open, before the first cell has its id.

use cell::Cell;
use plan::Planner;
use plan::resolve::{self, Trial};
use records::store::{StudyDir, read_record};
use records::{Record, Status};
use spec::Study;

use super::attempt::Attempts;
use super::error::RunError;
use super::events::Events;
use super::options::Options;
use super::progress::Progress;

/// Resolves a study before a run. Real steps of earlier runs count, unless `fresh` is true.
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
) -> Result<(), RunError> {
    if !study.cells.iter().any(|study_cell| study_cell.cell.is_open()) {
        return Ok(());
    }
    let notes = study.notes.len();
    let about = study.clone();
    resolve::resolve(study, planner, |cell| {
        let known = tried(dir, cell).filter(|_| !options.fresh);
        if known.is_some() || cell.engine().is_none() || events.interrupted().is_some() {
            return Ok(known);
        }
        progress.note(&format!("one real step with batch_size {}", cell.batch_size));
        let mut attempts = Attempts {
            study: &about,
            worker: &options.worker,
            events,
            progress,
        };
        let record = attempts.trial(cell, &dir.trial(&cell.id()))?;
        Ok::<_, RunError>(record.as_ref().and_then(outcome))
    })?;
    for note in &study.notes[notes..] {
        progress.note(note);
    }
    Ok(())
}

/// The outcome of an earlier run's real step with a cell.
pub fn tried(dir: &StudyDir, cell: &Cell) -> Option<Trial> {
    outcome(&read_record(&dir.trial(&cell.id())).ok().flatten()?)
}

/// `None` if the step ended in a way that says nothing of memory or of time.
fn outcome(record: &Record) -> Option<Trial> {
    let fits = match record.status {
        Status::Ok => true,
        // The kernel kills a process when memory runs out, and a cell cannot take less time than its largest step.
        Status::Oom | Status::Killed | Status::Lost | Status::Timeout => false,
        Status::Failed | Status::Oversize => return None,
    };
    Some(Trial {
        fits,
        seconds: record.wall_seconds,
    })
}
