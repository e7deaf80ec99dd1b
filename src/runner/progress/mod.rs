//! What a run says while it goes on, to people and to programs.

mod bar;
mod json;
mod plain;

use crate::results::record::{Event, Record};

pub use bar::Bars;
pub use json::Json;
pub use plain::Plain;

use super::{Overview, Summary, Task};

/// Hears what a run does. All text goes to stderr, but for [`Json`].
pub trait Progress {
    /// Before the first cell.
    fn started(&mut self, overview: &Overview);
    fn cell_started(&mut self, task: &Task);
    fn event(&mut self, task: &Task, event: &Event);
    fn cell_finished(&mut self, task: &Task, record: &Record);
    /// Something that people should know; a line.
    fn note(&mut self, text: &str);
    /// After the last cell.
    fn finished(&mut self, summary: &Summary);
}

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn started(&mut self, _: &Overview) {}
    fn cell_started(&mut self, _: &Task) {}
    fn event(&mut self, _: &Task, _: &Event) {}
    fn cell_finished(&mut self, _: &Task, _: &Record) {}
    fn note(&mut self, _: &str) {}
    fn finished(&mut self, _: &Summary) {}
}
