//! `expctl import`: configurations of other programs as specs, and what other commands say of them.
#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod answers;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod sweeps;
mod twelve;

use common::project::Project;

/// A small file of axolotl's.
const AXOLOTL: &str = "\
base_model: HuggingFaceTB/SmolLM2-135M
datasets:
  - path: data/train.jsonl
    type: alpaca
adapter: lora
lora_r: 8
lora_alpha: 16
lora_mlp_kernel: false
sequence_len: 256
micro_batch_size: 2
optimizer: adamw_torch
learning_rate: 2e-4
output_dir: ./out
wandb_project:
";

fn with(name: &str, text: &str) -> Project {
    let project = Project::empty();
    project.write(name, text);
    project
}
