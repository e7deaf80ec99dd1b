//! One attempt at a cell: its folder, its worker, its record.

use std::fs;
use std::io;
use std::time::SystemTime;

use base::whole_file;
use cell::{Cell, Engine};
use records::prediction::Prediction;
use records::store::{
    CellDir, Checkpoint, make_room, make_room_unless_file, make_room_unless_folder, remove_checkpoints,
    write_cell_yaml, write_own, write_prediction, write_record,
};
use records::{Provenance, Record, Status};
use spec::Study;

use super::error::RunError;
use super::events::Events;
use super::job::{Job, wait_for_one};
use super::options::Options;
use super::outcome::{self, Attempt};
use super::progress::Progress;
use super::protocol::{oom_file, snapshots_file};
use super::provenance::{provenance, snapshots};
use super::schedule::previous_record;
use super::status::is_result;
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
        concurrent_cells: 1,
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

/// An attempt at a cell whose worker runs.
pub(super) struct UnderWay {
    pub(super) job: Job,
    attempt: Attempt,
}

impl AsMut<Job> for UnderWay {
    fn as_mut(&mut self) -> &mut Job {
        &mut self.job
    }
}

/// Starts an attempt at a cell. `trial` takes its largest step alone.
pub(super) fn begin(
    task: &Task,
    (cell, dir): (&Cell, &CellDir),
    study: &Study,
    options: &Options,
    events: &mut Events,
    trial: bool,
) -> Result<UnderWay, RunError> {
    let failed = |what, source| RunError::Cell {
        cell_id: task.cell_id.clone(),
        what,
        source,
    };
    prepare(dir, cell, study, task.prediction.as_ref())
        .map_err(|source| failed("its folder cannot be made ready", source))?;
    let attempt = Attempt {
        dir: dir.clone(),
        number: task.attempt,
        started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        provenance: known_provenance(cell, study),
    };
    let launch = Launch {
        dir,
        cell,
        base_dir: &study.directory,
        attempt: task.attempt,
        timeout: study.limits.timeout,
        record: &study.record,
        // Python's cells train alone.
        shares_machine: !study.speeds && cell.engine() == Some(Engine::Candle),
        adapter_config_sha256: study.adapter_config_sha256(cell),
        trial,
    };
    let job = Job::start(&options.worker(cell), &launch, events);
    Ok(UnderWay {
        job: job.map_err(|source| failed("its process cannot be started", source))?,
        attempt,
    })
}

impl UnderWay {
    /// Concludes an attempt whose job is over. Returns `None` if a signal stopped it.
    pub(super) fn end(self, options: &Options) -> Result<Option<Record>, RunError> {
        let dir = self.attempt.dir.clone();
        let Some(exit) = self.job.into_exit() else {
            return Ok(None);
        };
        let record = outcome::conclude(self.attempt, &exit)?;
        if let Some(python) = &options.python {
            let _ = fs::remove_dir_all(python.inputs().join(dir.id()));
        }
        let _ = fs::remove_file(oom_file(&dir));
        if let Some(record) = &record {
            let _ = fs::remove_file(previous_record(&dir));
            if is_result(record.status) {
                let _ = remove_checkpoints(&dir);
            }
        }
        Ok(record)
    }
}

/// The largest step of a cell alone, in `dir`. Returns `None` if a signal stopped it.
pub(super) fn trial(
    (cell, dir): (&Cell, &CellDir),
    study: &Study,
    options: &Options,
    events: &mut Events,
    progress: &mut dyn Progress,
) -> Result<Option<Record>, RunError> {
    let task = Task::alone(dir.id());
    // A record of an earlier attempt must not pass for this one's.
    absent_is_fine(fs::remove_dir_all(dir.path())).map_err(|source| RunError::Folder {
        path: dir.path().to_path_buf(),
        source,
    })?;
    let _queued = events.queue_signals();
    let mut running = vec![begin(&task, (cell, dir), study, options, events, true)?];
    let over = wait_for_one(&mut running, events, &mut |_, event| progress.event(&task, event));
    over.map_err(RunError::Wait)?.end(options)
}

/// Prepares a cell's folder for an attempt: the configuration, the prediction, and no file of the previous attempt but
/// its checkpoints, and the timeline of the steps before them.
///
/// The record goes first, so that figures of two attempts never mix.
fn prepare(dir: &CellDir, cell: &Cell, study: &Study, prediction: Option<&Prediction>) -> io::Result<()> {
    make_room_unless_folder(dir.path())?;
    fs::create_dir_all(dir.path())?;
    whole_file::remove_left_over(dir.path());
    make_room_unless_file(&dir.record())?;
    make_room_unless_file(&previous_record(dir))?;
    absent_is_fine(fs::rename(dir.record(), previous_record(dir)))?;
    make_room_unless_folder(&dir.checkpoints())?;
    whole_file::remove_left_over(&dir.checkpoints());
    for file in [dir.steps(), dir.log(), oom_file(dir)] {
        make_room(&file)?;
    }
    let goes_on = !Checkpoint::all(dir).map_err(io::Error::other)?.is_empty();
    if !(study.record.timeline && goes_on) {
        make_room(&dir.timeline())?;
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
