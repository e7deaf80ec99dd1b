//! The options of a run.

use std::path::PathBuf;

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
    /// Leaves out cells whose prediction exceeds their budget or, without one, the machine's memory.
    pub skip_oversize: bool,
    /// The program that trains the cells.
    pub worker: Worker,
}
