//! The cells of a run: which starts next, what trains, and what follows an outcome.

use std::collections::{HashMap, VecDeque};

use base::text::format;
use cell::Engine;
use plan::Planner;
use records::prediction::Verdict;
use records::store::{StudyDir, check_files, read_record, remove_checkpoints, write_own, write_record};
use records::{Event, Record, Retried, Status};
use spec::{Lineage, OnOom, Study, StudyCell};

use super::attempt::{self, UnderWay};
use super::error::RunError;
use super::events::Events;
use super::job::{Job, wait_for_one};
use super::ladder;
use super::larger::is_at_least_as_large;
use super::options::Options;
use super::progress::Progress;
use super::room::{Need, Room, Taken};
use super::schedule::{is_kept, task_of};
use super::status::{is_failure, is_lost};
use super::summary::Finished;
use super::task::{Cached, Task};

/// A cell that trains.
struct Current {
    task: Task,
    need: Need,
    attempt: UnderWay,
    retried: Vec<Retried>,
    /// The most cells that trained at once so far, this one included.
    beside: usize,
}

impl AsMut<Job> for Current {
    fn as_mut(&mut self) -> &mut Job {
        self.attempt.as_mut()
    }
}

/// A run with its folder locked and its cells scheduled.
pub(super) struct Run<'a> {
    pub(super) study: &'a mut Study,
    pub(super) options: &'a Options,
    pub(super) dir: StudyDir,
    pub(super) planner: Planner,
    /// Why values that cells leave open cannot be found, by their ids.
    pub(super) unresolved: HashMap<String, String>,
    pub(super) events: Events,
    pub(super) room: Room,
    /// The cells to run.
    pub(super) tasks: VecDeque<Task>,
    pub(super) kept: Vec<Cached>,
    pub(super) finished: Vec<Finished>,
    /// Indices of the cells that were tried and ran out of memory.
    pub(super) out_of_memory: Vec<usize>,
}

impl Run<'_> {
    /// Runs all cells, as many at once as there is room for. Returns the number of cells that are left.
    pub(super) fn all(&mut self, progress: &mut dyn Progress) -> Result<usize, RunError> {
        let (mut running, mut stopped) = (Vec::new(), 0);
        loop {
            while let Some(mut task) = self.next(&running) {
                (task.position, task.of) = self.place(running.len());
                task.work_to_come = self.tasks.iter().map(|task| task.work).sum();
                progress.cell_started(&task);
                self.start(task, &mut running, progress)?;
                let cells = running.len();
                running
                    .iter_mut()
                    .for_each(|current| current.beside = current.beside.max(cells));
            }
            if running.is_empty() {
                return Ok(self.tasks.len() + stopped);
            }
            let on_event = &mut |current: &Current, event: &Event| progress.event(&current.task, event);
            let over = wait_for_one(&mut running, &mut self.events, on_event).map_err(RunError::Wait)?;
            let is_stopped = !self.end(over, &mut running, progress)?;
            stopped += usize::from(is_stopped);
        }
    }

    /// The next cell to start beside those that train; `None` if there is none, or no room for it.
    fn next(&mut self, running: &[Current]) -> Option<Task> {
        let has_failed = || self.finished.iter().any(|finished| is_failure(finished.record.status));
        let is_over = self.events.interrupted().is_some() || self.options.fail_fast && has_failed();
        // Nothing is asked of the others, of which there may be many.
        if is_over || self.room.is_full(running.len()) {
            return None;
        }
        let taken: Vec<Taken> = running
            .iter()
            .map(|current| (current.need, current.attempt.job.process_peak_bytes()))
            .collect();
        let has_room = |task: &Task| self.room.has(self.need(task), &taken);
        let next = self.tasks.iter().position(has_room)?;
        self.tasks.remove(next)
    }

    fn need(&self, task: &Task) -> Need {
        let cell = &self.study.cells[task.index].cell;
        self.room.need(cell, task.prediction.as_ref())
    }

    /// The position of a cell that starts beside so many, and the number of cells.
    fn place(&self, beside: usize) -> (usize, usize) {
        let position = self.finished.len() + beside + 1;
        (position, position + self.tasks.len())
    }

    /// Starts a cell, or says why it is not tried.
    fn start(&mut self, task: Task, running: &mut Vec<Current>, progress: &mut dyn Progress) -> Result<(), RunError> {
        let study_cell = &self.study.cells[task.index];
        let dir = self.dir.cell(&study_cell.id);
        let unresolved = self.unresolved.get(&study_cell.id);
        let left_out = match unresolved {
            Some(reason) => Some((Status::Failed, reason.clone())),
            None => self
                .left_out(&task, study_cell)
                .map(|reason| (Status::Oversize, reason)),
        };
        if let Some(reason) = left_out {
            let record = attempt::leave_out(&task, &study_cell.cell, &dir, self.study, reason)?;
            return self.finished(task, record, progress);
        }
        if self.options.fresh {
            remove_checkpoints(&dir).map_err(|source| RunError::Cell {
                cell_id: task.cell_id.clone(),
                what: "its checkpoints cannot be removed",
                source,
            })?;
        }
        running.push(Current {
            need: self.need(&task),
            attempt: self.begin(&task)?,
            task,
            retried: Vec::new(),
            beside: 1,
        });
        Ok(())
    }

    fn begin(&mut self, task: &Task) -> Result<UnderWay, RunError> {
        let study_cell = &self.study.cells[task.index];
        let dir = self.dir.cell(&study_cell.id);
        let cell = (&study_cell.cell, &dir);
        attempt::begin(task, cell, self.study, self.options, &mut self.events, false)
    }

    /// Concludes an attempt, and starts another one if the limits allow it. Returns false if a signal stopped it.
    fn end(
        &mut self,
        over: Current,
        running: &mut Vec<Current>,
        progress: &mut dyn Progress,
    ) -> Result<bool, RunError> {
        let Current {
            mut task,
            need,
            attempt,
            mut retried,
            beside,
        } = over;
        let Some(mut record) = attempt.end(self.options)? else {
            return Ok(false);
        };
        let may_retry = retried.len() < self.study.limits.retries as usize;
        if is_lost(record.status) && may_retry && self.events.interrupted().is_none() {
            let reason = record.reason.unwrap_or_default();
            progress.note(&format!("{}: {reason}; it is tried again", task.name()));
            retried.push(Retried {
                attempt: task.attempt,
                status: record.status,
                reason,
                wall_seconds: record.wall_seconds,
            });
            task.attempt += 1;
            running.push(Current {
                attempt: self.begin(&task)?,
                task,
                need,
                retried,
                beside,
            });
            return Ok(true);
        }
        if !retried.is_empty() || beside > 1 {
            (record.retried, record.concurrent_cells) = (retried, beside);
            write_record(&self.dir.cell(&task.cell_id), &record)?;
        }
        self.finished(task, record, progress)?;
        Ok(true)
    }

    /// Takes an outcome into account.
    fn finished(&mut self, task: Task, record: Record, progress: &mut dyn Progress) -> Result<(), RunError> {
        progress.cell_finished(&task, &record);
        let (index, status) = (task.index, record.status);
        self.finished.push(Finished { task, record });
        if status == Status::Oom {
            self.out_of_memory.push(index);
        }
        if matches!(status, Status::Oom | Status::Oversize) {
            self.follow(index, progress)?;
        }
        Ok(())
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
                task.prediction = self.options.predict(&self.planner, self.study, next).ok();
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

/// Writes the resolved spec.
pub(super) fn write_study(study: &Study, dir: &StudyDir) -> Result<(), RunError> {
    let yaml = study.to_yaml(dir.path()).map_err(|source| RunError::Folder {
        path: dir.path().to_path_buf(),
        source,
    })?;
    write_own(&dir.study_yaml(), yaml.as_bytes())?;
    Ok(())
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
