//! The run: lock, schedule, predict, then one cell after the other.

use std::fs;

use rayon::prelude::*;

use crate::memory::probes;
use crate::plan::{self, Planner, advice};
use crate::results::prediction::Verdict;
use crate::results::store::{StudyDir, write_if_changed};
use crate::spec::Study;
use crate::spec::cell::Cell;
use crate::text::format;

use super::attempt;
use super::error::RunError;
use super::events::Events;
use super::lock::FolderLock;
use super::options::Options;
use super::planned;
use super::progress::Progress;
use super::schedule::{Schedule, schedule};
use super::status::is_failure;
use super::summary::{Finished, Summary};
use super::task::{Cached, Task};

/// Runs the cells that have no result in the study's folder. Only one run at a time may write into a folder.
///
/// # Errors
/// If the folder cannot be used or a result cannot be written. Results of cells that finished before stay.
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
    for Cached { index, .. } in &kept {
        // An earlier version may have written other keys.
        let planned = &study.cells[*index];
        write_if_changed(&dir.cell(&planned.id).cell_yaml(), planned.cell.to_yaml().as_bytes())?;
    }
    let planner = Planner::new(&study.directory, plan::Options::default());
    planned::plan(study, &planner, &dir)?;
    predict(study, &planner, &mut tasks);
    progress.started(&overview);
    for note in notes {
        progress.note(&note);
    }
    let mut events = Events::open()?;
    let mut finished: Vec<Finished> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let stop = options.fail_fast && finished.last().is_some_and(|last| is_failure(last.record.status));
        if stop || events.interrupted().is_some() {
            break;
        }
        progress.cell_started(&task);
        let planned = &study.cells[task.index];
        let cell_dir = dir.cell(&planned.id);
        let record = match oversize(&task, &planned.cell).filter(|_| options.skip_oversize) {
            Some(reason) => Some(attempt::leave_out(&task, &planned.cell, &cell_dir, reason)?),
            None => attempt::run(&task, &planned.cell, &cell_dir, study, &mut events, progress)?,
        };
        if let Some(record) = record {
            progress.cell_finished(&task, &record);
            finished.push(Finished { task, record });
        }
    }
    let summary = Summary {
        left: overview.to_run - finished.len(),
        planned: overview.planned,
        finished,
        kept,
        interrupted: events.interrupted(),
    };
    progress.finished(&summary);
    Ok(summary)
}

/// Predicts the memory of each cell. Training shows the others.
fn predict(study: &Study, planner: &Planner, tasks: &mut [Task]) {
    tasks.par_iter_mut().for_each(|task| {
        task.prediction = advice::predict(planner, &study.cells[task.index].cell, &study.fit).ok();
    });
}

/// The reason why a cell will not fit into its budget or, without one, into the machine; `None` if it fits.
fn oversize(task: &Task, cell: &Cell) -> Option<String> {
    let prediction = task.prediction.as_ref()?;
    let size = |bytes: u64| format::bytes((bytes as f64).into());
    if let (Some(_), Some(budget)) = (prediction.past_host_budget(), prediction.host_budget_bytes) {
        let (host, budget) = (size(prediction.host_allocated_peak_bytes.unwrap_or(0)), size(budget));
        return Some(format!(
            "predicted peak of offloaded tensors {host}, past the budget of {budget} (host_memory)"
        ));
    }
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

/// Refuses a folder of another study, whose `study.yaml` would be lost, also one that another version wrote.
fn refuse_another(study: &Study, dir: &StudyDir) -> Result<(), RunError> {
    match Study::name_in(dir.path()) {
        Some(found) if found != study.name => Err(RunError::OtherStudy {
            path: dir.path().to_path_buf(),
            found,
            name: study.name.clone(),
        }),
        _ => Ok(()),
    }
}
