//! Predictions: our trainer's against its ledger, those of PyTorch's stack against PyTorch, and what a user sees of them.
#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod accuracy;
mod answers;
mod binding;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod data;
mod fewest_gpus;
mod fit;
mod fms_acceleration;
mod fsdp;
mod gpus;
mod kbit;
mod methods;
mod models;
mod names;
mod published;
mod ranks;
mod sample;
mod speed;
mod torch;
mod trainer;
mod training_loop;
mod windows;

use serde_json::Value;

use common::project::{Output, Project};

impl Project {
    /// `expctl plan spec.yaml` with these arguments.
    fn plan(&self, arguments: &[&str]) -> Output {
        self.expctl(&[&["plan", "spec.yaml"], arguments].concat())
    }

    /// The same as JSON, one object per cell.
    fn planned(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.plan(&[arguments, &["--format", "json"]].concat());
        assert!(output.stderr.is_empty(), "{output}");
        serde_json::from_str(&output.stdout).unwrap()
    }
}
