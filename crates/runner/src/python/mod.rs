//! The engine in Python: its files, which this program carries, the interpreter that runs them, and what cells ask of it.

mod carried;
mod interpreter;
mod offer;
mod planned;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cell::{Cell, Engine};
use records::WorkerMachine;
use spec::{Study, StudyCell};

use super::preflight::{PreflightError, Reason};
use super::worker::{Worker, own_program};
use carried::Carried;
use interpreter::Interpreter;

/// The folder of a study for weights and batches while its cells run.
const INPUTS: &str = ".inputs";

/// The folder of inputs while a run lasts.
#[derive(Debug)]
pub(super) struct InputsFolder<'a>(&'a Path);

impl Drop for InputsFolder<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Python for the cells of a study.
#[derive(Debug, Clone)]
pub struct Python {
    interpreter: Interpreter,
    carried: Arc<Carried>,
    inputs: PathBuf,
    /// What the interpreters say, each with the releases that it was asked for.
    machines: Vec<(Vec<String>, WorkerMachine)>,
}

impl Python {
    /// Asks the interpreter about itself, once for each set of releases that cells name, and checks that it has what the
    /// cells that are due need. `None` if there are no such cells. `announce` says what may be fetched before it is.
    ///
    /// # Errors
    /// There is no such interpreter, or it lacks a package, a release or a device that a cell needs.
    pub fn find(
        study: &Study,
        results: &Path,
        given: Option<&str>,
        is_due: impl Fn(&StudyCell) -> bool,
        announce: impl Fn(&str),
    ) -> Result<Option<Self>, PreflightError> {
        let runs = |cell: &&StudyCell| cell.cell.engine() == Some(Engine::Python) && is_due(cell);
        let Some(first) = study.cells.iter().find(runs) else {
            return Ok(None);
        };
        let fail = |cell: &StudyCell, error: io::Error| {
            PreflightError::new(study, cell, "engine", "python", Reason::Python(error.to_string()))
        };
        let interpreter = Interpreter::choose(given, study);
        let carried = Carried::write().map_err(|error| fail(first, error))?;
        let mut python = Self {
            interpreter,
            carried: Arc::new(carried),
            inputs: std::path::absolute(results.join(INPUTS)).map_err(|error| fail(first, error))?,
            machines: Vec::new(),
        };
        for cell in study.cells.iter().filter(runs) {
            let releases = python.interpreter.releases(&cell.cell);
            if !python.machines.iter().any(|(known, _)| *known == releases) {
                if let Some(fetched) = python.interpreter.fetched(&releases) {
                    announce(&fetched);
                }
                let asked = python.worker(&cell.cell).machine();
                let machine = asked.map_err(|error| fail(cell, python.interpreter.explain(&error)))?;
                python.machines.push((releases.clone(), machine));
            }
            let Some(machine) = python.machine(&cell.cell) else {
                continue;
            };
            offer::check(study, cell, machine, &python.interpreter)?;
        }
        Ok(Some(python))
    }

    /// The worker of a cell.
    pub(super) fn worker(&self, cell: &Cell) -> Worker {
        let line = self.interpreter.line(cell, self.carried.folder());
        let program = own_program(&std::process::id().to_string());
        let program = program.map_or_else(|_| "expctl".into(), PathBuf::into_os_string);
        let environment: Vec<(&'static str, OsString)> = vec![
            ("EXPCTL_PROGRAM", program),
            ("EXPCTL_INPUTS", self.inputs.clone().into_os_string()),
        ];
        Worker::with_arguments(line, environment)
    }

    /// What a cell's interpreter offers.
    pub fn machine(&self, cell: &Cell) -> Option<&WorkerMachine> {
        let releases = self.interpreter.releases(cell);
        let mut machines = self.machines.iter();
        machines
            .find(|(known, _)| *known == releases)
            .map(|(_, machine)| machine)
    }

    /// The interpreter, and what it has, for people.
    pub fn describe(&self) -> Vec<String> {
        let machines = self.machines.iter();
        let mut lines: Vec<String> = machines
            .map(|(_, machine)| format!("{}: {}", self.interpreter, offer::describe(machine)))
            .collect();
        lines.dedup();
        lines
    }

    /// The folder for inputs.
    pub(super) fn inputs(&self) -> &Path {
        &self.inputs
    }

    /// Removes what an earlier run has left there; what this one leaves goes when the result is dropped.
    pub(super) fn make_room(&self) -> InputsFolder<'_> {
        let _ = fs::remove_dir_all(&self.inputs);
        InputsFolder(&self.inputs)
    }
}
