//! JSON lines on stdout, for programs.

use std::io::{Write, stdout};

use records::{Event, Record};
use serde::Serialize;

use super::super::summary::Summary;
use super::super::task::{Overview, Task};
use super::observer::Progress;

/// A line; its `event` is the kind. A step's figures come from the worker's own events.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    StudyStarted(&'a Overview),
    CellStarted(&'a Task),
    CellEvent {
        cell_id: &'a str,
        /// The worker's event.
        cell: &'a Event,
    },
    CellFinished {
        cell_id: &'a str,
        record: &'a Record,
    },
    Note {
        text: &'a str,
    },
    StudyFinished(&'a Summary),
}

/// JSON lines on stdout.
pub struct Json;

impl Json {
    fn line(&self, line: &Line) {
        if let Ok(json) = serde_json::to_string(line) {
            let mut out = stdout().lock();
            // A reader that has gone is no reason to stop training.
            let _ = writeln!(out, "{json}").and_then(|()| out.flush());
        }
    }
}

impl Progress for Json {
    fn started(&mut self, overview: &Overview) {
        self.line(&Line::StudyStarted(overview));
    }

    fn cell_started(&mut self, task: &Task) {
        self.line(&Line::CellStarted(task));
    }

    fn event(&mut self, task: &Task, event: &Event) {
        self.line(&Line::CellEvent {
            cell_id: &task.cell_id,
            cell: event,
        });
    }

    fn cell_finished(&mut self, task: &Task, record: &Record) {
        self.line(&Line::CellFinished {
            cell_id: &task.cell_id,
            record,
        });
    }

    fn note(&mut self, text: &str) {
        self.line(&Line::Note { text });
    }

    fn finished(&mut self, summary: &Summary) {
        self.line(&Line::StudyFinished(summary));
    }
}
