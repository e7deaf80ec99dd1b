//! The run itself.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use rayon::prelude::*;
use serde::Serialize;

use crate::memory::probes;
use crate::plan::{self, Planner};
use crate::results::prediction::{Prediction, Verdict};
use crate::results::record::{Record, Status};
use crate::results::store::{CellDir, StudyDir, remove_temporaries, write_if_changed, write_prediction, write_record};
use crate::spec::Study;
use crate::spec::cell::Cell;
use crate::text::format;

use super::child::{self, Launch};
use super::error::RunError;
use super::inbox::Inbox;
use super::lock::FolderLock;
use super::outcome::{self, Attempt};
use super::progress::Progress;
use super::provenance::provenance;
use super::schedule::{Kept, Schedule, Task, is_failure, previous_record, schedule};

/// How a study is run; nothing of it changes what a cell is.
#[derive(Debug, Clone)]
pub struct Options {
    /// The study's folder.
    pub results: PathBuf,
    /// Run all cells, whatever results there are.
    pub fresh: bool,
    /// Stop at the first cell that is neither ok nor oom.
    pub fail_fast: bool,
    /// Leave out cells that are predicted not to fit into their budget or, where they have none, into the machine.
    pub skip_oversize: bool,
}

/// What a run did.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Cells that this run tried, in their order.
    pub finished: Vec<Finished>,
    /// Cells whose result was there before.
    #[serde(skip)]
    pub kept: Vec<Kept>,
    /// Cells that are still to be done.
    pub left: usize,
    /// The signal that ended the run before its time.
    pub interrupted: Option<c_int>,
}

/// A cell that this run tried.
#[derive(Debug, Serialize)]
pub struct Finished {
    #[serde(flatten)]
    pub task: Task,
    pub record: Record,
}

impl Summary {
    /// Cells of this run that have no result.
    pub fn failed(&self) -> impl Iterator<Item = &Finished> {
        self.finished
            .iter()
            .filter(|finished| is_failure(finished.record.status))
    }
}

/// Runs what the study's folder has no result of. Only one run at a time may write into a folder.
///
/// # Errors
/// Where the folder cannot be used or a result cannot be written. What finished before is kept.
pub fn run(study: &Study, options: &Options, progress: &mut dyn Progress) -> Result<Summary, RunError> {
    let dir = StudyDir::new(&options.results);
    let folder = |source| RunError::Folder {
        path: options.results.clone(),
        source,
    };
    fs::create_dir_all(dir.path().join("cells")).map_err(folder)?;
    let _lock = FolderLock::acquire(dir.path(), &dir.lock())?;
    refuse_another(study, &dir)?;
    let yaml = study.to_yaml(dir.path()).map_err(folder)?;
    write_if_changed(&dir.study_yaml(), yaml.as_bytes())?;

    let Schedule {
        overview,
        mut tasks,
        kept,
        notes,
    } = schedule(study, options)?;
    for Kept { index, .. } in &kept {
        // An earlier version may have written other keys.
        let planned = &study.cells[*index];
        write_if_changed(&dir.cell(&planned.id).cell_yaml(), planned.cell.to_yaml().as_bytes())?;
    }
    predict(study, &mut tasks);
    progress.started(&overview);
    for note in notes {
        progress.note(&note);
    }
    let mut inbox = Inbox::open()?;
    let mut finished: Vec<Finished> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let stop = options.fail_fast && finished.last().is_some_and(|last| is_failure(last.record.status));
        if stop || inbox.interrupted().is_some() {
            break;
        }
        progress.cell_started(&task);
        let planned = &study.cells[task.index];
        let cell_dir = dir.cell(&planned.id);
        let record = match oversize(&task, &planned.cell).filter(|_| options.skip_oversize) {
            Some(reason) => Some(leave_out(&task, &planned.cell, &cell_dir, reason)?),
            None => train(&task, &planned.cell, &cell_dir, study, &mut inbox, progress)?,
        };
        if let Some(record) = record {
            progress.cell_finished(&task, &record);
            finished.push(Finished { task, record });
        }
    }
    let summary = Summary {
        left: overview.to_run - finished.len(),
        finished,
        kept,
        interrupted: inbox.interrupted(),
    };
    progress.finished(&summary);
    Ok(summary)
}

/// Says of each cell what it will take. What cannot be said is found out by training it.
fn predict(study: &Study, tasks: &mut [Task]) {
    let planner = Planner::new(&study.directory, plan::Options::default());
    tasks.par_iter_mut().for_each(|task| {
        task.prediction = planner.predict(&study.cells[task.index].cell).ok();
    });
}

/// Why a cell will not fit, if it will not: into its budget or, without one, into the machine.
fn oversize(task: &Task, cell: &Cell) -> Option<String> {
    let prediction = task.prediction.as_ref()?;
    let size = |bytes: u64| format::bytes((bytes as f64).into());
    if let (Some(Verdict::Oversize), Some(budget)) = (prediction.verdict, prediction.budget_bytes) {
        let (peak, budget) = (size(prediction.allocated_peak_bytes), size(budget));
        return Some(format!(
            "predicted peak {peak}, past the budget of {budget} (device_memory)"
        ));
    }
    let (process, machine) = (prediction.process_peak_bytes?, probes::system_total_bytes()?);
    let past = cell.device_memory.is_none() && process > machine;
    past.then(|| {
        let (process, machine) = (size(process), size(machine));
        format!("predicted process {process}, and this machine has {machine}")
    })
}

/// Enters a cell as not tried.
fn leave_out(task: &Task, cell: &Cell, dir: &CellDir, reason: String) -> Result<Record, RunError> {
    prepare(dir, cell, task.prediction.as_ref()).map_err(|source| RunError::Cell {
        cell_id: task.cell_id.clone(),
        what: "its folder cannot be made ready",
        source,
    })?;
    let record = Record {
        cell_id: task.cell_id.clone(),
        status: Status::Oversize,
        reason: Some(reason),
        attempt: task.attempt,
        started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        wall_seconds: 0.0,
        measured: None,
        oom: None,
        timeout_seconds: None,
        provenance: provenance(cell, |name| given(cell, name)),
    };
    write_record(dir, &record)?;
    let _ = fs::remove_file(previous_record(dir));
    Ok(record)
}

/// Two studies in one folder would lose the first one's `study.yaml`. One that cannot be read is lost already.
fn refuse_another(study: &Study, dir: &StudyDir) -> Result<(), RunError> {
    match Study::read(dir.path()) {
        Ok(there) if there.name != study.name => Err(RunError::OtherStudy {
            path: dir.path().to_path_buf(),
            found: there.name,
            name: study.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// One attempt at one cell. None where the run was interrupted first.
fn train(
    task: &Task,
    cell: &Cell,
    dir: &CellDir,
    study: &Study,
    inbox: &mut Inbox,
    progress: &mut dyn Progress,
) -> Result<Option<Record>, RunError> {
    let failed = |what, source| RunError::Cell {
        cell_id: task.cell_id.clone(),
        what,
        source,
    };
    prepare(dir, cell, task.prediction.as_ref()).map_err(|source| failed("its folder cannot be made ready", source))?;
    let attempt = Attempt {
        dir,
        number: task.attempt,
        started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        provenance: provenance(cell, |name| given(cell, name)),
    };
    let launch = Launch {
        serial: task.index,
        dir,
        cell,
        base_dir: &study.directory,
        attempt: task.attempt,
        timeout: study.limits.timeout,
        record: &study.record,
    };
    let ended = child::run(&launch, inbox, &mut |event| progress.event(task, event))
        .map_err(|source| failed("its process cannot be started", source))?;
    let record = outcome::settle(attempt, &ended)?;
    let _ = fs::remove_file(outcome::oom_file(dir));
    if record.is_some() {
        let _ = fs::remove_file(previous_record(dir));
    }
    Ok(record)
}

/// Makes a cell's folder ready for an attempt: its configuration, what is predicted, and nothing of the attempt before. The record goes
/// first, so that no figure of one attempt ever stands beside another's.
fn prepare(dir: &CellDir, cell: &Cell, prediction: Option<&Prediction>) -> io::Result<()> {
    fs::create_dir_all(dir.path())?;
    remove_temporaries(dir.path())?;
    absent_is_fine(fs::rename(dir.record(), previous_record(dir)))?;
    for file in [dir.steps(), dir.timeline(), outcome::oom_file(dir)] {
        absent_is_fine(fs::remove_file(file))?;
    }
    absent_is_fine(fs::remove_dir_all(dir.adapter()))?;
    write_if_changed(&dir.cell_yaml(), cell.to_yaml().as_bytes()).map_err(io::Error::other)?;
    match prediction {
        Some(prediction) => write_prediction(dir, prediction).map_err(io::Error::other),
        None => absent_is_fine(fs::remove_file(dir.prediction())),
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A variable as the cell's process is given it.
fn given(cell: &Cell, name: &str) -> Option<String> {
    cell.environment().get(name).copied().flatten().map(str::to_owned)
}
