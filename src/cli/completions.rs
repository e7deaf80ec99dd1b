//! `expctl completions SHELL`, and the man pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::{Shell, generate};

use super::print;

const EXAMPLES: &str = "Examples:
  expctl completions bash
  expctl completions zsh";

/// Print a script that completes commands in a shell
///
/// For bash: expctl completions bash > ~/.local/share/bash-completion/completions/expctl
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[arg(required_unless_present = "man")]
    shell: Option<Shell>,
    /// Write the man pages into this folder, one for each command
    #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

pub(super) fn run(args: Args, mut cli: clap::Command) -> anyhow::Result<ExitCode> {
    if let Some(shell) = args.shell {
        let mut script = Vec::new();
        generate(shell, &mut cli, "expctl", &mut script);
        print(&String::from_utf8_lossy(&script))?;
    }
    if let Some(folder) = args.man {
        write_man_pages(&folder, cli).with_context(|| format!("cannot write the man pages to {}", folder.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_man_pages(folder: &Path, cli: clap::Command) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(cli, folder)
}
