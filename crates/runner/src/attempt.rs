//! One attempt at a cell: its folder, its worker, its record.

use std::fs;
use std::io;
use std::time::SystemTime;

use base::whole_file;
use cell::Cell;
use records::prediction::Prediction;
use records::store::{
    CellDir, make_room, make_room_unless_file, make_room_unless_folder, write_cell_yaml, write_own, write_prediction,
    write_record,
};
use records::{Provenance, Record, Status};
use spec::Study;

use super::error::RunError;
use super::events::Events;
use super::options::Options;
use super::outcome::{self, Attempt};
use super::progress::Progress;
use super::protocol::{oom_file, snapshots_file};
use super::provenance::{provenance, snapshots};
use super::schedule::previous_record;
use super::task::Task;
use super::worker::Launch;

/// Records why a cell is not trained.
pub(super) fn leave_out(
    task: &Task,
    cell: &Cell,
    dir: &CellDir,
    study: &Study,
    (status, reason): (Status, String),
) -> Result<Record, RunError> {
    prepare(dir, cell, study, task.prediction.as_ref()).map_err(|source| RunError::Cell {
        cell_id: task.cell_id.clone(),
        what: "its folder cannot be made ready",
        source,
    })?;
    let record = Record {
        cell_id: task.cell_id.clone(),
        status,
        reason: Some(reason),
        attempt: task.attempt,
        retried: Vec::new(),
        started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        wall_seconds: 0.0,
        measured: None,
        oom: None,
        timeout_seconds: None,
        provenance: known_provenance(cell, study),
        files: None,
    };
    write_record(dir, &record)?;
    let _ = fs::remove_file(previous_record(dir));
    Ok(record)
}

/// What all attempts of a run share.
pub(super) struct Attempts<'a> {
    pub(super) study: &'a Study,
    pub(super) options: &'a Options,
    pub(super) events: &'a mut Events,
    pub(super) progress: &'a mut dyn Progress,
}

impl Attempts<'_> {
    /// One attempt at one cell. Returns `None` if a signal stopped it.
    pub(super) fn run(&mut self, task: &Task, cell: &Cell, dir: &CellDir) -> Result<Option<Record>, RunError> {
        self.attempt(task, cell, dir, false)
    }

    /// The largest step of a cell alone, in `dir`. Returns `None` if a signal stopped it.
    pub(super) fn trial(&mut self, cell: &Cell, dir: &CellDir) -> Result<Option<Record>, RunError> {
        let task = Task {
            cell_id: dir.id(),
            label: String::new(),
            position: 0,
            of: 0,
            attempt: 1,
            index: 0,
            prediction: None,
            work: 1.0,
            work_left: 1.0,
        };
        // A record of an earlier attempt must not pass for this one's.
        absent_is_fine(fs::remove_dir_all(dir.path())).map_err(|source| RunError::Folder {
            path: dir.path().to_path_buf(),
            source,
        })?;
        self.attempt(&task, cell, dir, true)
    }

    fn attempt(&mut self, task: &Task, cell: &Cell, dir: &CellDir, trial: bool) -> Result<Option<Record>, RunError> {
        let failed = |what, source| RunError::Cell {
            cell_id: task.cell_id.clone(),
            what,
            source,
        };
        let study = self.study;
        prepare(dir, cell, study, task.prediction.as_ref())
            .map_err(|source| failed("its folder cannot be made ready", source))?;
        let attempt = Attempt {
            dir,
            number: task.attempt,
            started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            provenance: known_provenance(cell, study),
        };
        let launch = Launch {
            serial: task.index,
            dir,
            cell,
            base_dir: &study.directory,
            attempt: task.attempt,
            timeout: study.limits.timeout,
            record: &study.record,
            adapter_config_sha256: study.adapter_config_sha256(cell),
            trial,
        };
        let progress = &mut self.progress;
        let worker = self.options.worker(cell);
        let exit = worker
            .run(&launch, self.events, &mut |event| progress.event(task, event))
            .map_err(|source| failed("its process cannot be started", source))?;
        let record = outcome::conclude(attempt, &exit)?;
        if let Some(python) = &self.options.python {
            let _ = fs::remove_dir_all(python.inputs().join(dir.id()));
        }
        let _ = fs::remove_file(oom_file(dir));
        if record.is_some() {
            let _ = fs::remove_file(previous_record(dir));
        }
        Ok(record)
    }
}

/// Prepares a cell's folder for an attempt: the configuration, the prediction, and no file of the previous attempt.
///
/// The record goes first, so that figures of two attempts never mix.
fn prepare(dir: &CellDir, cell: &Cell, study: &Study, prediction: Option<&Prediction>) -> io::Result<()> {
    make_room_unless_folder(dir.path())?;
    fs::create_dir_all(dir.path())?;
    whole_file::remove_left_over(dir.path());
    make_room_unless_file(&dir.record())?;
    make_room_unless_file(&previous_record(dir))?;
    absent_is_fine(fs::rename(dir.record(), previous_record(dir)))?;
    for file in [dir.steps(), dir.timeline(), dir.log(), oom_file(dir)] {
        make_room(&file)?;
    }
    make_room_unless_folder(&dir.adapter())?;
    absent_is_fine(fs::remove_dir_all(dir.adapter()))?;
    write_cell_yaml(dir, &cell.to_yaml()).map_err(io::Error::other)?;
    let snapshots = snapshots(cell, &study.roots());
    match snapshots.is_empty() {
        true => make_room(&snapshots_file(dir))?,
        false => {
            let text = serde_json::to_vec_pretty(&snapshots)?;
            write_own(&snapshots_file(dir), &text).map_err(io::Error::other)?;
        }
    }
    match prediction {
        Some(prediction) => write_prediction(dir, prediction).map_err(io::Error::other),
        None => make_room(&dir.prediction()),
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// What is known before training.
fn known_provenance(cell: &Cell, study: &Study) -> Provenance {
    let adapter_config = study.adapter_config_sha256(cell);
    provenance(cell, &study.roots(), adapter_config, |name| variable(cell, name))
}

/// A variable's value in the environment of the worker.
fn variable(cell: &Cell, name: &str) -> Option<String> {
    cell.environment().get(name).copied().flatten().map(str::to_owned)
}
