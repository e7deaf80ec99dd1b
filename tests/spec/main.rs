//! Wrong specs as a user sees them. No text makes the reader panic, hang or take long.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod accelerate_config;
mod adapter_config;
mod causes;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod deepspeed_config;
mod diagnostics;
mod examples;
mod figures;
mod mutations;
mod stacks;
mod sweeps;

use std::path::Path;

use expctl::spec::{self, Overrides, Study};

fn parse(text: &str, settings: &[&str]) -> Result<Study, spec::SpecError> {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    spec::parse(
        Path::new("experiments/example.yaml"),
        text,
        &Overrides::new([], settings),
    )
}

fn study(text: &str) -> Study {
    parse(text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// A spec with this sweep.
fn sweep(lines: &str) -> String {
    let lines: String = lines
        .trim_matches('\n')
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    format!("name: example\ndefaults:\n  model: tiny\n  dtype: bfloat16\nsweep:\n{lines}")
}
