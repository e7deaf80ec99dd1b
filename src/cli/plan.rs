//! `expctl plan SPEC`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::print;
use crate::plan;
use crate::spec::{self, Overrides};

/// Say what each cell of a spec will take, without running it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The spec, a YAML file
    spec: PathBuf,
    /// Set a key for all cells, over the spec and the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let study = spec::load(&args.spec, &Overrides::from_environment(args.set)?)?;
    let mut all = Vec::new();
    for planned in &study.cells {
        let prediction = plan::predict(&planned.cell, &study.directory)?;
        all.push(json!({"cell_id": planned.id, "prediction": prediction}));
    }
    print(&format!("{:#}\n", json!(all)))?;
    Ok(ExitCode::SUCCESS)
}
