//! The run: lock, schedule, predict, then the cells, one after the other or side by side.

use std::cmp::Reverse;
use std::fs;
use std::sync::Arc;

use base::whole_file;
use plan::Planner;
use rayon::prelude::*;
use records::Status;
use records::store::{StudyDir, make_room, read_prediction, write_cell_yaml, write_prediction};
use spec::Study;

use super::error::RunError;
use super::events::Events;
use super::ladder;
use super::lock::FolderLock;
use super::options::Options;
use super::predicted;
use super::progress::Progress;
use super::python::Python;
use super::room::Room;
use super::running::{Run, write_study};
use super::samples::Apart;
use super::schedule::{Schedule, schedule};
use super::summary::Summary;
use super::task::{Cached, Task};
use super::trials;

/// Runs the cells that have no result in the study's folder. Only one run at a time may write into a folder. Values
/// that the spec leaves open are found first, and cells that follow others on a ladder are added: `study` is then what
/// ran.
///
/// # Errors
/// If the folder cannot be used or a result cannot be written. Results of cells that finished before stay.
pub fn run(study: &mut Study, options: &Options, progress: &mut dyn Progress) -> Result<Summary, RunError> {
    let dir = StudyDir::new(&options.results);
    let folder = |source| RunError::Folder {
        path: options.results.clone(),
        source,
    };
    fs::create_dir_all(dir.path().join("cells")).map_err(folder)?;
    let _lock = FolderLock::acquire(dir.path(), &dir.lock())?;
    whole_file::remove_left_over(dir.path());
    let _inputs = options.python.as_ref().map(Python::make_room);
    refuse_another(study, &dir)?;
    let mut events = Events::open()?;
    let apart = Apart::new(study.roots(), study.limits.timeout).map_err(RunError::Program)?;
    let planner = Planner::reading_apart(study.roots(), options.planning(), Arc::new(apart));
    let unresolved = trials::resolve(study, &planner, &dir, options, &mut events, progress)?;
    ladder::add_fallbacks(study, &planner, options);
    write_study(study, &dir)?;

    let Schedule {
        overview,
        mut tasks,
        kept,
        notes,
    } = schedule(study, options)?;
    for Cached { index, .. } in &kept {
        // An earlier version may have written other keys.
        let study_cell = &study.cells[*index];
        let cell_dir = dir.cell(&study_cell.id);
        write_cell_yaml(&cell_dir, &study_cell.cell.to_yaml())?;
        if read_prediction(&cell_dir).is_err() {
            match options.predict(&planner, study, study_cell) {
                Ok(prediction) => write_prediction(&cell_dir, &prediction)?,
                // Without its model there is none.
                Err(_) => make_room(&cell_dir.prediction()).map_err(folder)?,
            }
        }
    }
    let unplanned = predicted::plan(study, &planner, &dir, &unresolved)?;
    predict(study, &planner, options, &mut tasks);
    weigh(study, &planner, &mut tasks);
    let _queued = events.queue_signals();
    progress.started(&overview);
    for note in notes {
        progress.note(&note);
    }
    let room = Room::new(study, options);
    // Small cells then fill the room that large ones leave. `skip_larger` learns from the small ones.
    if !room.is_for_one() && !study.skip_larger {
        let memory = |task: &Task| {
            task.prediction
                .as_ref()
                .and_then(|prediction| prediction.process_peak_bytes)
        };
        tasks.sort_by_key(|task| Reverse(memory(task)));
    }
    let out_of_memory = kept.iter().filter(|kept| kept.record.status == Status::Oom);
    let mut run = Run {
        out_of_memory: out_of_memory.map(|kept| kept.index).collect(),
        study,
        options,
        dir,
        planner,
        unresolved,
        events,
        room,
        tasks: tasks.into(),
        kept,
        finished: Vec::new(),
    };
    let left = run.all(progress)?;
    let summary = Summary {
        left,
        planned: overview.planned - unplanned.len(),
        unplanned,
        finished: run.finished,
        kept: run.kept,
        interrupted: run.events.interrupted(),
    };
    progress.finished(&summary);
    Ok(summary)
}

/// Predicts the memory of each cell. Training shows the others.
fn predict(study: &Study, planner: &Planner, options: &Options, tasks: &mut [Task]) {
    tasks.par_iter_mut().for_each(|task| {
        task.prediction = options.predict(planner, study, &study.cells[task.index]).ok();
    });
}

/// Gives each cell its work, if that of all is known.
fn weigh(study: &Study, planner: &Planner, tasks: &mut [Task]) {
    let work = |task: &Task| planner.work(&study.cells[task.index].cell, task.prediction.as_ref()?);
    let Some(work) = tasks.iter().map(work).collect::<Option<Vec<f64>>>() else {
        return;
    };
    for (task, work) in tasks.iter_mut().zip(work) {
        task.work = work;
    }
}

/// Refuses a folder of another study, whose `study.yaml` would be lost, also one that another version wrote.
fn refuse_another(study: &Study, dir: &StudyDir) -> Result<(), RunError> {
    // A changed byte may be one of the name.
    let has_own_cells = || {
        study
            .cells
            .iter()
            .any(|study_cell| dir.cell(&study_cell.id).path().exists())
    };
    let is_damaged = || Study::is_changed_in(dir.path()) && has_own_cells();
    match Study::name_in(dir.path()) {
        Some(found) if found != study.name && !is_damaged() => Err(RunError::OtherStudy {
            path: dir.path().to_path_buf(),
            found,
            name: study.name.clone(),
        }),
        _ => Ok(()),
    }
}
