//! Two bars on a terminal: the study, and the cell that runs.

use std::time::Duration;

use base::text::visible;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use records::{Event, Record, Status};

use super::super::summary::Summary;
use super::super::task::{Overview, Task};
use super::super::text::{outcome, overview, predicted, step};
use super::eta::Eta;
use super::observer::Progress;

const TICK: Duration = Duration::from_millis(200);

/// Two bars on a terminal.
pub struct Bars {
    bars: MultiProgress,
    study: ProgressBar,
    cell: ProgressBar,
    eta: Eta,
}

impl Default for Bars {
    fn default() -> Self {
        let bars = MultiProgress::new();
        let study = bars.add(ProgressBar::no_length());
        study.set_style(style(CELLS));
        let cell = bars.add(ProgressBar::no_length());
        Self {
            bars,
            study,
            cell,
            eta: Eta::default(),
        }
    }
}

/// The style of a template. A test holds that all templates parse.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

const CELLS: &str = "{bar:24} {pos}/{len} cells, {elapsed} gone{msg}";
const WAITING: &str = "{spinner} {prefix} {msg}";
const STEPPING: &str = "{bar:24} {prefix} step {pos}/{len}, {eta} left, {msg}";

impl Progress for Bars {
    fn started(&mut self, study: &Overview) {
        self.note(&overview(study));
        self.study.set_length(study.to_run as u64);
        self.study.enable_steady_tick(TICK);
    }

    fn cell_started(&mut self, task: &Task) {
        // A cell that ran out of memory may be followed by others.
        self.study.set_length(task.of as u64);
        self.study.set_message(self.eta.left(task.work_left));
        self.cell.reset();
        self.cell.set_style(style(WAITING));
        self.cell.set_prefix(task.name());
        self.cell.set_message(format!("starting{}", predicted(task)));
        self.cell.enable_steady_tick(TICK);
    }

    fn event(&mut self, task: &Task, event: &Event) {
        match event {
            Event::Loading => self.cell.set_message("loading"),
            Event::Training { steps, .. } => {
                self.cell.set_style(style(STEPPING));
                self.cell.reset();
                self.cell.set_length(*steps as u64);
                self.cell.set_message("");
            }
            Event::Step { steps, step: now } => {
                let done = task.work * now.step as f64 / *steps as f64;
                self.study.set_message(self.eta.left(task.work_left - done));
                self.cell.set_position(now.step as u64);
                self.cell.set_message(step(now));
            }
            Event::Evaluating => {
                self.cell.set_style(style(WAITING));
                self.cell.set_message("evaluating");
            }
            Event::Remark { text } => self.note(&format!("{}: {text}", task.name())),
            Event::Started(_) | Event::Done => {}
        }
    }

    fn cell_finished(&mut self, task: &Task, record: &Record) {
        if record.status != Status::Oversize {
            self.eta.finished(task.work, record.wall_seconds);
        }
        self.study.set_message(self.eta.left(task.work_left - task.work));
        self.study.inc(1);
        // The table at the end has all outcomes; failures show at once.
        if record.status != Status::Ok {
            self.note(&format!("{}: {}", task.name(), outcome(task, record)));
        }
    }

    fn note(&mut self, text: &str) {
        let _ = self.bars.println(visible(text));
    }

    fn finished(&mut self, _: &Summary) {
        self.cell.finish_and_clear();
        self.study.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_parse() {
        for template in [CELLS, WAITING, STEPPING] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
