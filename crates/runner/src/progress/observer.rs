//! The observer of a run.

use records::{Event, Record};

use super::super::summary::Summary;
use super::super::task::{Overview, Task};

/// Observes a run. All text goes to stderr, except that of [`Json`](super::Json).
pub trait Progress {
    /// Before the first cell.
    fn started(&mut self, overview: &Overview);
    /// A cell starts.
    fn cell_started(&mut self, task: &Task);
    /// The cell's worker reports an event.
    fn event(&mut self, task: &Task, event: &Event);
    /// A cell has an outcome.
    fn cell_finished(&mut self, task: &Task, record: &Record);
    /// A remark for people; one line.
    fn note(&mut self, text: &str);
    /// After the last cell.
    fn finished(&mut self, summary: &Summary);
}

/// Prints nothing.
pub struct Silent;

impl Progress for Silent {
    fn started(&mut self, _: &Overview) {}
    fn cell_started(&mut self, _: &Task) {}
    fn event(&mut self, _: &Task, _: &Event) {}
    fn cell_finished(&mut self, _: &Task, _: &Record) {}
    fn note(&mut self, _: &str) {}
    fn finished(&mut self, _: &Summary) {}
}
