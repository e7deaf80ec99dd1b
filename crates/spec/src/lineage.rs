//! How a cell came into a study.

use cell::Cell;

use super::on_oom::Rung;

/// How a cell came into a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Lineage {
    /// The spec has it.
    #[default]
    Written,
    /// The spec leaves a value to be found before the run.
    Resolved(Box<Resolved>),
    /// It follows a cell that ran out of memory.
    Fallback(Fallback),
}

/// A cell as the spec has it, and the search for its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The cell with the values that were left open.
    pub asked: Cell,
    /// The real steps that the search took.
    pub trials: Trials,
}

/// Real steps of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Trials {
    /// The number of steps, each in a process of its own.
    pub count: u32,
    /// The duration of all processes.
    pub seconds: f64,
}

/// The cell before this one on a ladder, and the rung between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The id of the cell that ran out of memory, or is known to.
    pub of: String,
    /// The change.
    pub step: Rung,
}
