//! `expctl completions SHELL`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::{Cli, print};

/// Print a script that completes commands in a shell
///
/// For bash: expctl completions bash > ~/.local/share/bash-completion/completions/expctl
#[derive(Debug, clap::Args)]
pub struct Args {
    shell: Shell,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "expctl", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
