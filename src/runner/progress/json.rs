//! JSON lines on stdout, for programs.

use std::io::{Write, stdout};

use serde::Serialize;

use crate::results::record::{Event, Record};

use super::{Overview, Progress, Summary, Task};

/// One line each; `event` says which. A step's figures are those of the child's own events.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    StudyStarted(&'a Overview),
    CellStarted(&'a Task),
    CellEvent {
        cell_id: &'a str,
        /// Its own `event` says what the cell does.
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

pub struct Json;

impl Json {
    fn line(&self, line: &Line) {
        if let Ok(json) = serde_json::to_string(line) {
            let mut out = stdout().lock();
            // Nobody reads it any more; that is no reason to stop training.
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
