//! Bars on a terminal: one of the study, and one of each cell that trains.

use std::collections::BTreeMap;
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

/// Bars on a terminal.
pub struct Bars {
    bars: MultiProgress,
    study: ProgressBar,
    /// Those of the cells that train, by their ids.
    cells: BTreeMap<String, ProgressBar>,
    eta: Eta,
}

impl Default for Bars {
    fn default() -> Self {
        let bars = MultiProgress::new();
        let study = bars.add(ProgressBar::no_length());
        study.set_style(style(CELLS));
        Self {
            bars,
            study,
            cells: BTreeMap::new(),
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
        self.eta.started(task);
        self.study.set_message(self.eta.left());
        let cell = self.bars.add(ProgressBar::no_length());
        cell.set_style(style(WAITING));
        cell.set_prefix(task.name());
        cell.set_message(format!("starting{}", predicted(task)));
        cell.enable_steady_tick(TICK);
        self.cells.insert(task.cell_id.clone(), cell);
    }

    fn event(&mut self, task: &Task, event: &Event) {
        if let Event::Remark { text } = event {
            self.note(&format!("{}: {text}", task.name()));
        }
        // A real step has no bar.
        let Some(cell) = self.cells.get(&task.cell_id) else {
            return;
        };
        match event {
            Event::Loading => cell.set_message("loading"),
            Event::Training { steps, .. } => {
                cell.set_style(style(STEPPING));
                cell.reset();
                cell.set_length(*steps as u64);
                cell.set_message("");
            }
            Event::Step { steps, step: now } => {
                self.eta.stepped(task, now.step, *steps);
                self.study.set_message(self.eta.left());
                cell.set_position(now.step as u64);
                cell.set_message(step(now));
            }
            Event::Evaluating => {
                cell.set_style(style(WAITING));
                cell.set_message("evaluating");
            }
            Event::Remark { .. } | Event::Started(_) | Event::Done => {}
        }
    }

    fn cell_finished(&mut self, task: &Task, record: &Record) {
        if let Some(cell) = self.cells.remove(&task.cell_id) {
            cell.finish_and_clear();
            self.bars.remove(&cell);
        }
        self.eta.finished(task, record.status != Status::Oversize);
        self.study.set_message(self.eta.left());
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
        self.cells.values().for_each(ProgressBar::finish_and_clear);
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
