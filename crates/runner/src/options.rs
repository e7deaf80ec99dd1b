//! The options of a run.

use std::path::PathBuf;

use options::InstructionSet;
use records::WorkerMachine;

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
    /// What the worker said of its machine; `None` if it was not asked, as when nothing is due.
    pub machine: Option<WorkerMachine>,
}

impl Options {
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
