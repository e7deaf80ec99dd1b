//! The outcome of a run.

use std::ffi::c_int;

use records::Record;
use serde::Serialize;

use super::{
    status::is_failure,
    task::{Cached, Task},
};

/// The outcome of a run.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The cells that this run tried, in order.
    pub finished: Vec<Finished>,
    /// The cells with a result of an earlier run.
    #[serde(skip)]
    pub kept: Vec<Cached>,
    /// The number of cells still to run.
    pub left: usize,
    /// The number of cells that are planned and not run.
    pub planned: usize,
    /// The cells that should be and cannot be planned: the reason of each, with its place.
    pub unplanned: Vec<String>,
    /// The signal that ended the run early.
    pub interrupted: Option<c_int>,
}

/// A cell that this run tried.
#[derive(Debug, Serialize)]
pub struct Finished {
    /// The cell.
    #[serde(flatten)]
    pub task: Task,
    /// Its outcome.
    pub record: Record,
}

impl Summary {
    /// True if a cell failed, or cannot be planned.
    pub fn has_failures(&self) -> bool {
        !self.unplanned.is_empty() || self.failed().next().is_some()
    }

    /// The cells of this run that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Finished> {
        self.finished
            .iter()
            .filter(|finished| is_failure(finished.record.status))
    }
}
