//! The cells of a run.

use std::path::PathBuf;

use records::Record;
use records::prediction::Prediction;
use serde::Serialize;

/// A run in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// The study's name.
    pub name: String,
    /// The folder of the results.
    pub results: PathBuf,
    /// Cells of the study.
    pub cells: usize,
    /// Cells to run.
    pub to_run: usize,
    /// Cells with a result of an earlier run.
    pub kept: usize,
    /// Cells that are planned and not run.
    pub planned: usize,
}

/// A cell to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Task {
    /// The cell's id.
    pub cell_id: String,
    /// The cell's axes in the study, such as `rank=16 dtype=int4`.
    pub label: String,
    /// Position among the cells of this run, from 1.
    pub position: usize,
    /// Cells of this run.
    pub of: usize,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Index among the study's cells.
    #[serde(skip)]
    pub index: usize,
    /// The predicted memory; `None` if the planner cannot predict it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Its work in proportion to that of the run's other cells: the training's arithmetic, or 1 if that of one is not known.
    #[serde(skip)]
    pub work: f64,
    /// The work of the cells that have not started.
    #[serde(skip)]
    pub work_to_come: f64,
}

impl Task {
    /// The first attempt at a cell that no other is beside.
    pub(super) fn alone(cell_id: impl Into<String>) -> Self {
        Self {
            cell_id: cell_id.into(),
            label: String::new(),
            position: 0,
            of: 0,
            attempt: 1,
            index: 0,
            prediction: None,
            work: 1.0,
            work_to_come: 0.0,
        }
    }

    /// The cell's id and label, for people.
    pub fn name(&self) -> String {
        format!("{} {}", self.cell_id, self.label).trim_end().to_owned()
    }
}

/// A cell with a result of an earlier run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cached {
    /// Index among the study's cells.
    pub index: usize,
    /// The result.
    pub record: Record,
}
