//! `expctl machine`, hidden: what this machine offers to cells, which `expctl run` asks before it starts them.

use std::process::ExitCode;

use super::print;
use crate::worker;

pub(super) fn run() -> anyhow::Result<ExitCode> {
    print(&format!("{}\n", serde_json::to_string_pretty(&worker::offered())?))?;
    Ok(ExitCode::SUCCESS)
}
