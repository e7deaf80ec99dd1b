//! `expctl run`, as a user sees it: outcomes, resuming, signals, timelines, and places that cannot be written to.
#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod adapters;
mod background;
mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod environment;
mod forgetting;
mod hostile;
mod jobs;
mod ladder;
mod outcomes;
mod output;
mod pairs;
mod python;
mod requires;
mod resolving;
mod resuming;
mod saved_model;
mod signals;
mod stacks;
mod timeline;
mod without_a_spec;
mod worker;

use std::path::PathBuf;

use expctl::records::store::read_record;
use expctl::records::{Record, Status};
use serde_json::Value;

use common::project::Project;

/// Two cells that train in no time.
const QUICK: &str = "
name: quick
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 2 }
sweep: { grid: { rank: [2, 4] } }
";

/// A quick cell, then one that would train for hours.
const QUICK_THEN_LONG: &str = "
name: long
defaults: { model: tiny, dtype: float32, max_seq_length: 16 }
sweep: { grid: { max_steps: [2, 10000000] } }
";

/// One that would train for hours, then a quick one.
const LONG_THEN_QUICK: &str = "
name: long
defaults: { model: tiny, dtype: float32, max_seq_length: 16 }
sweep: { grid: { max_steps: [10000000, 2] } }
";

impl Project {
    /// The cells that a run would have, in the study's order.
    fn dry_run(&self) -> Vec<Value> {
        let cells = self.run(&["--dry-run", "--format", "json"]).json();
        cells.as_array().unwrap().clone()
    }

    /// The action that a run would take for each cell.
    fn plan(&self) -> Vec<String> {
        let plan = |cell: &Value| cell["plan"].as_str().unwrap().to_owned();
        self.dry_run().iter().map(plan).collect()
    }

    /// The cells' folders.
    fn cells(&self) -> Vec<PathBuf> {
        let path = |cell: &Value| self.results().cell(cell["cell_id"].as_str().unwrap()).path().to_owned();
        self.dry_run().iter().map(path).collect()
    }

    /// The cells' records; `None` for a cell without one.
    fn records(&self) -> Vec<Option<Record>> {
        let record = |cell: &Value| read_record(&self.results().cell(cell["cell_id"].as_str().unwrap())).unwrap();
        self.dry_run().iter().map(record).collect()
    }

    fn statuses(&self) -> Vec<Option<Status>> {
        let records = self.records().into_iter();
        records.map(|record| record.map(|record| record.status)).collect()
    }
}
