//! `expctl completions SHELL`.

use std::process::ExitCode;

use clap_complete::{Shell, generate};

use super::print;

/// Print a script that completes commands in a shell
///
/// For bash: expctl completions bash > ~/.local/share/bash-completion/completions/expctl
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    shell: Shell,
}

pub(super) fn run(args: Args, cli: &mut clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    generate(args.shell, cli, "expctl", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
