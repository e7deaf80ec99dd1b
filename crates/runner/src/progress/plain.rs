//! Plain lines for logs and pipes.

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

/// One line for each cell, and for a step now and then, on stderr.
#[derive(Default)]
pub struct Plain {
    last_step: Option<Instant>,
    log_interval: Option<usize>,
}

impl Plain {
    /// Prints a line every `log_interval` steps; `None` for one in ten seconds at most.
    pub fn every(log_interval: Option<usize>) -> Self {
        Self {
            last_step: None,
            log_interval,
        }
    }

    fn is_due(&self, step: usize) -> bool {
        match self.log_interval {
            Some(interval) => step.is_multiple_of(interval),
            None => self.last_step.is_none_or(|last| last.elapsed() >= INTERVAL),
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
        self.last_step = Some(Instant::now());
        self.line(&format!(
            "[{}/{}] {}{}",
            task.position,
            task.of,
            task.name(),
            predicted(task)
        ));
    }

    fn event(&mut self, _: &Task, event: &Event) {
        match event {
            Event::Step { steps, step: now } if self.is_due(now.step) => {
                self.last_step = Some(Instant::now());
                self.line(&format!("  step {}/{steps} {}", now.step, step(now)));
            }
            Event::Remark { text } => self.line(&format!("  {text}")),
            _ => {}
        }
    }

    fn cell_finished(&mut self, task: &Task, record: &Record) {
        self.line(&format!("  {}", outcome(task, record)));
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }

    fn finished(&mut self, _: &Summary) {}
}
