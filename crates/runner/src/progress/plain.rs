//! Plain lines for logs and pipes.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use base::text::visible;
use records::{Event, Record};

use super::super::summary::Summary;
use super::super::task::{Overview, Task};
use super::super::text::{outcome, overview, predicted, step};
use super::observer::Progress;

/// The shortest time between two lines about steps, unless the study says after how many there is one.
const INTERVAL: Duration = Duration::from_secs(10);

/// One line for each cell, and for a step now and then, on stderr. Where several train at once, each line says of which
/// it is.
#[derive(Default)]
pub struct Plain {
    /// The cells that train, with the time of their last line about a step.
    last_steps: BTreeMap<String, Instant>,
    log_interval: Option<usize>,
}

impl Plain {
    /// Prints a line every `log_interval` steps; `None` for one in ten seconds at most.
    pub fn every(log_interval: Option<usize>) -> Self {
        Self {
            last_steps: BTreeMap::new(),
            log_interval,
        }
    }

    fn is_due(&self, task: &Task, step: usize) -> bool {
        let last = self.last_steps.get(&task.cell_id);
        match self.log_interval {
            Some(interval) => step.is_multiple_of(interval),
            None => last.is_none_or(|last| last.elapsed() >= INTERVAL),
        }
    }

    /// A line about a cell that trains.
    fn line_of(&self, task: &Task, text: &str) {
        match self.last_steps.len() {
            0 | 1 => self.line(&format!("  {text}")),
            _ => self.line(&format!("  {}: {text}", task.cell_id)),
        }
    }

    fn line(&self, text: &str) {
        // A reader that has gone is no reason to stop training.
        let _ = writeln!(stderr(), "{}", visible(text));
    }
}

impl Progress for Plain {
    fn started(&mut self, study: &Overview) {
        self.line(&overview(study));
    }

    fn cell_started(&mut self, task: &Task) {
        self.last_steps.insert(task.cell_id.clone(), Instant::now());
        self.line(&format!(
            "[{}/{}] {}{}",
            task.position,
            task.of,
            task.name(),
            predicted(task)
        ));
    }

    fn event(&mut self, task: &Task, event: &Event) {
        match event {
            Event::Step { steps, step: now } if self.is_due(task, now.step) => {
                self.last_steps.insert(task.cell_id.clone(), Instant::now());
                self.line_of(task, &format!("step {}/{steps} {}", now.step, step(now)));
            }
            Event::Remark { text } => self.line_of(task, text),
            _ => {}
        }
    }

    fn cell_finished(&mut self, task: &Task, record: &Record) {
        self.line_of(task, &outcome(task, record));
        self.last_steps.remove(&task.cell_id);
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }

    fn finished(&mut self, _: &Summary) {}
}
