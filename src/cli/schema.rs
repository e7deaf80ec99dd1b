//! `expctl schema`.

use std::process::ExitCode;

use super::print;
use crate::spec;

/// Print the JSON Schema of specs, with which editors complete and check them
///
/// For example: `expctl schema > expctl.schema.json`, and as a spec's first line
/// `# yaml-language-server: $schema=expctl.schema.json`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: Args) -> anyhow::Result<ExitCode> {
    print(&format!("{:#}\n", spec::schema()))?;
    Ok(ExitCode::SUCCESS)
}
