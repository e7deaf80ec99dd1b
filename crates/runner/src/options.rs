//! The options of a run.

use std::path::PathBuf;

use cell::{Cell, Engine};
use options::InstructionSet;
use plan::{PlanError, Planner, advice};
use records::WorkerMachine;
use records::prediction::Prediction;
use spec::{Study, StudyCell};

use super::python::Python;
use super::worker::Worker;

/// The options of a run. None of them changes a cell.
#[derive(Debug, Clone)]
pub struct Options {
    /// The study's folder.
    pub results: PathBuf,
    /// Runs all cells again, even those that have a result.
    pub fresh: bool,
    /// Stops at the first cell that is neither ok nor oom.
    pub fail_fast: bool,
    /// Leaves out cells whose prediction exceeds their budget or the machine's memory.
    pub skip_oversize: bool,
    /// The program that trains the cells.
    pub worker: Worker,
    /// Python, for the cells of that engine; `None` if none of them is due.
    pub python: Option<Python>,
    /// What the worker said of its machine; `None` if it was not asked, as when nothing is due.
    pub machine: Option<WorkerMachine>,
}

impl Options {
    /// The worker of a cell.
    pub(super) fn worker(&self, cell: &Cell) -> Worker {
        self.python_of(cell)
            .map_or_else(|| self.worker.clone(), |python| python.worker(cell))
    }

    /// Python, if it runs the cell.
    fn python_of(&self, cell: &Cell) -> Option<&Python> {
        self.python.as_ref().filter(|_| cell.engine() == Some(Engine::Python))
    }

    /// The memory of a cell, as it is run.
    pub(super) fn predict(
        &self,
        planner: &Planner,
        study: &Study,
        study_cell: &StudyCell,
    ) -> Result<Prediction, PlanError> {
        let cell = self.planned(&study_cell.cell);
        let predicted = advice::predict(planner, &cell, &study.fit)?;
        Ok(self.as_run(&study_cell.cell, predicted))
    }

    /// A cell as it is planned: that of Python with the releases and the GPU that are there.
    fn planned(&self, cell: &Cell) -> Cell {
        self.python_of(cell)
            .map_or_else(|| cell.clone(), |python| python.planned(cell))
    }

    /// A prediction without the figures that its cell's machine does not have.
    fn as_run(&self, cell: &Cell, predicted: Prediction) -> Prediction {
        match self.python_of(cell) {
            Some(python) => python.as_run(cell, predicted),
            None => predicted,
        }
    }

    /// Why a cell of Python would not fit its device.
    pub(super) fn past_python(&self, cell: &Cell, predicted: &Prediction) -> Option<String> {
        self.python_of(cell)?.oversize(cell, predicted)
    }

    /// How the study is planned: for the worker's machine.
    pub fn planning(&self) -> plan::Options {
        let auto = self
            .machine
            .as_ref()
            .map(|machine| machine.auto_instruction_set.as_str());
        plan::Options {
            instruction_set: auto.and_then(InstructionSet::named),
            ..plan::Options::default()
        }
    }

    /// The memory of the worker's machine.
    pub(super) fn machine_bytes(&self) -> Option<u64> {
        self.machine.as_ref()?.machine.memory_bytes
    }
}
