//! The run: lock, schedule, predict, then one cell after the other.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::sync::Arc;

use base::text::format;
use base::whole_file;
use cell::Engine;
use plan::{PlanError, Planner, advice};
use rayon::prelude::*;
use records::prediction::{Prediction, Verdict};
use records::store::{
    StudyDir, check_files, make_room, read_prediction, read_record, write_cell_yaml, write_own, write_prediction,
    write_record,
};
use records::{Record, Retried, Status};
use spec::{Lineage, OnOom, Study, StudyCell};

use super::attempt::{self, Attempts};
use super::error::RunError;
use super::events::Events;
use super::ladder;
use super::larger::is_at_least_as_large;
use super::lock::FolderLock;
use super::options::Options;
use super::predicted;
use super::progress::Progress;
use super::python::Python;
use super::samples::Apart;
use super::schedule::{Schedule, is_kept, schedule, task_of};
use super::status::{is_failure, is_lost};
use super::summary::{Finished, Summary};
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
            match prediction(study, study_cell, &planner, options) {
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
    let out_of_memory = kept.iter().filter(|kept| kept.record.status == Status::Oom);
    let mut run = Run {
        out_of_memory: out_of_memory.map(|kept| kept.index).collect(),
        study,
        options,
        dir,
        planner,
        unresolved,
        events,
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

/// A run with its folder locked and its cells scheduled.
struct Run<'a> {
    study: &'a mut Study,
    options: &'a Options,
    dir: StudyDir,
    planner: Planner,
    /// Why values that cells leave open cannot be found, by their ids.
    unresolved: HashMap<String, String>,
    events: Events,
    /// The cells to run.
    tasks: VecDeque<Task>,
    kept: Vec<Cached>,
    finished: Vec<Finished>,
    /// Indices of the cells that were tried and ran out of memory.
    out_of_memory: Vec<usize>,
}

impl Run<'_> {
    /// Runs one cell after the other. Returns the number of cells that are left.
    fn all(&mut self, progress: &mut dyn Progress) -> Result<usize, RunError> {
        while let Some(mut task) = self.tasks.pop_front() {
            let stop =
                self.options.fail_fast && self.finished.last().is_some_and(|last| is_failure(last.record.status));
            if stop || self.events.interrupted().is_some() {
                return Ok(self.tasks.len() + 1);
            }
            (task.position, task.of) = (self.finished.len() + 1, self.finished.len() + 1 + self.tasks.len());
            task.work_left = task.work + self.tasks.iter().map(|task| task.work).sum::<f64>();
            let Some(record) = self.one(&mut task, progress)? else {
                return Ok(self.tasks.len() + 1);
            };
            progress.cell_finished(&task, &record);
            let (index, status) = (task.index, record.status);
            self.finished.push(Finished { task, record });
            if status == Status::Oom {
                self.out_of_memory.push(index);
            }
            if matches!(status, Status::Oom | Status::Oversize) {
                self.follow(index, progress)?;
            }
        }
        Ok(0)
    }

    /// One cell, with the attempts that its limits allow. Returns `None` if a signal stopped it.
    fn one(&mut self, task: &mut Task, progress: &mut dyn Progress) -> Result<Option<Record>, RunError> {
        progress.cell_started(task);
        let study_cell = &self.study.cells[task.index];
        let dir = self.dir.cell(&study_cell.id);
        if let Some(reason) = self.unresolved.get(&study_cell.id) {
            let reason = (Status::Failed, reason.clone());
            return attempt::leave_out(task, &study_cell.cell, &dir, self.study, reason).map(Some);
        }
        if let Some(reason) = self.left_out(task, study_cell) {
            let reason = (Status::Oversize, reason);
            return attempt::leave_out(task, &study_cell.cell, &dir, self.study, reason).map(Some);
        }
        let mut retried = Vec::new();
        let mut attempts = Attempts {
            study: self.study,
            options: self.options,
            events: &mut self.events,
            progress,
        };
        loop {
            let Some(mut record) = attempts.run(task, &study_cell.cell, &dir)? else {
                return Ok(None);
            };
            let may_retry = retried.len() < self.study.limits.retries as usize;
            if is_lost(record.status) && may_retry && attempts.events.interrupted().is_none() {
                let reason = record.reason.unwrap_or_default();
                attempts
                    .progress
                    .note(&format!("{}: {reason}; it is tried again", task.name()));
                retried.push(Retried {
                    attempt: task.attempt,
                    status: record.status,
                    reason,
                    wall_seconds: record.wall_seconds,
                });
                task.attempt += 1;
                continue;
            }
            if !retried.is_empty() {
                record.retried = retried;
                write_record(&dir, &record)?;
            }
            return Ok(Some(record));
        }
    }

    /// The reason why a cell is not tried.
    fn left_out(&self, task: &Task, study_cell: &StudyCell) -> Option<String> {
        let larger = self.study.skip_larger.then(|| {
            let known = self.out_of_memory.iter().map(|&index| &self.study.cells[index]);
            known
                .rev()
                .find(|smaller| is_at_least_as_large(&study_cell.cell, &smaller.cell))
        });
        if let Some(smaller) = larger.flatten() {
            return Some(format!(
                "not tried: {} is no larger, and ran out of memory (skip_larger)",
                smaller.id
            ));
        }
        if study_cell.cell.engine() == Some(Engine::Python) {
            return self.options.past_python(&study_cell.cell, task.prediction.as_ref()?);
        }
        oversize(task, self.options.machine_bytes()).filter(|_| self.options.skip_oversize || study_cell.is_fallback())
    }

    /// Adds the cell that follows one that ran out of memory, and runs it next if it has no result.
    fn follow(&mut self, index: usize, progress: &mut dyn Progress) -> Result<(), RunError> {
        let mut last = index;
        while let Some(next) = ladder::follow(self.study, &self.planner, last) {
            write_study(self.study, &self.dir)?;
            let dir = self.dir.cell(&self.study.cells[next].id);
            let whole = |record: &Record| check_files(&dir, record).is_ok();
            let record = read_record(&dir).unwrap_or_default().filter(whole);
            let known = record.filter(|record| !self.options.fresh && is_kept(&self.study.cells[next], record.status));
            let Some(record) = known else {
                let mut task = task_of(self.study, &self.dir, next);
                let next = &self.study.cells[next];
                task.prediction = prediction(self.study, next, &self.planner, self.options).ok();
                // It is as much work as the cell that it follows, more or less.
                task.work = self.finished.last().map_or(1.0, |finished| finished.task.work);
                self.tasks.push_front(task);
                return Ok(());
            };
            let status = record.status;
            self.kept.push(Cached { index: next, record });
            if !matches!(status, Status::Oom | Status::Oversize) {
                return Ok(());
            }
            last = next;
        }
        if !matches!(self.study.on_oom, OnOom::Record) && !is_followed(self.study, last) {
            let id = &self.study.cells[last].id;
            progress.note(&format!(
                "{id}: no rung is left, or it leads to another cell of the study"
            ));
        }
        Ok(())
    }
}

/// True if a cell has one below it on its ladder.
fn is_followed(study: &Study, index: usize) -> bool {
    let id = &study.cells[index].id;
    let mut lineages = study.cells.iter().map(|study_cell| &study_cell.lineage);
    lineages.any(|lineage| matches!(lineage, Lineage::Fallback(fallback) if fallback.of == *id))
}

fn write_study(study: &Study, dir: &StudyDir) -> Result<(), RunError> {
    let yaml = study.to_yaml(dir.path()).map_err(|source| RunError::Folder {
        path: dir.path().to_path_buf(),
        source,
    })?;
    write_own(&dir.study_yaml(), yaml.as_bytes())?;
    Ok(())
}

/// Predicts the memory of each cell. Training shows the others.
fn predict(study: &Study, planner: &Planner, options: &Options, tasks: &mut [Task]) {
    tasks.par_iter_mut().for_each(|task| {
        task.prediction = prediction(study, &study.cells[task.index], planner, options).ok();
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

fn prediction(
    study: &Study,
    study_cell: &StudyCell,
    planner: &Planner,
    options: &Options,
) -> Result<Prediction, PlanError> {
    let cell = options.planned(&study_cell.cell);
    let predicted = advice::predict(planner, &cell, &study.fit)?;
    Ok(options.as_run(&study_cell.cell, predicted))
}

/// The reason why a cell will not fit into its budget and into the machine; `None` if it fits.
fn oversize(task: &Task, machine_bytes: Option<u64>) -> Option<String> {
    let prediction = task.prediction.as_ref()?;
    let size = |bytes: u64| format::bytes((bytes as f64).into());
    if let (Some(_), Some(budget)) = (prediction.past_host_budget(), prediction.host_budget_bytes) {
        let (host, budget) = (size(prediction.host_allocated_peak_bytes.unwrap_or(0)), size(budget));
        return Some(format!(
            "predicted peak of offloaded tensors {host}, past the budget of {budget} (host_memory)"
        ));
    }
    if let (Some(Verdict::Oversize), Some(budget)) = (prediction.verdict, prediction.budget_bytes) {
        let (needed, budget) = (size(prediction.needed_bytes), size(budget));
        let of_load = match prediction.more_while_loading() {
            0 => "",
            _ => " while the model is loaded",
        };
        return Some(format!(
            "predicted peak {needed}{of_load}, past the budget of {budget} (device_memory)"
        ));
    }
    let process = prediction.process_peak_bytes? + prediction.more_while_loading();
    let machine = machine_bytes?;
    (process > machine).then(|| {
        let (process, machine) = (size(process), size(machine));
        format!("predicted process {process}, and this machine has {machine}")
    })
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
