//! A line for what matters, where there is no terminal: logs and pipes.

use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use crate::results::record::{Event, Record};

use super::super::text::{outcome, overview, predicted, step};
use super::{Overview, Progress, Summary, Task};

/// Steps are told at most this often.
const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Plain {
    last_step: Option<Instant>,
}

impl Plain {
    fn line(&self, text: &str) {
        // Nobody reads it any more; that is no reason to stop training.
        let _ = writeln!(stderr(), "{text}");
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
        if let Event::Step { steps, step: now } = event
            && self.last_step.is_none_or(|last| last.elapsed() >= INTERVAL)
        {
            self.last_step = Some(Instant::now());
            self.line(&format!("  step {}/{steps} {}", now.step, step(now)));
        }
    }

    fn cell_finished(&mut self, _: &Task, record: &Record) {
        self.line(&format!("  {}", outcome(record)));
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }

    fn finished(&mut self, _: &Summary) {}
}
