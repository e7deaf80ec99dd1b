//! The commands, one file each.
//!
//! Exit codes: 0 all as asked; 1 a cell failed or a check did not hold; 2 something given is wrong: the command line, the
//! spec, or the place that results go to. An error is always the last of these, so commands return the first two as `Ok`.

mod accuracy;
mod cell;
mod cells;
mod claims;
mod compare;
mod completions;
mod export;
mod init;
mod list;
mod plan;
mod report;
mod run;
mod schema;
mod show;
mod studies;
mod table;
mod validate;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

pub use table::Table;

use crate::spec::SpecError;

/// Exit code where a cell failed or a check did not hold.
pub const NOT_AS_ASKED: u8 = 1;
/// Exit code of every error.
pub const WRONG_INPUT: u8 = 2;

/// Fine-tuning experiments from a YAML file: what each configuration needs in memory and time, measured by training it.
#[derive(Debug, Parser)]
#[command(name = "expctl", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Accuracy(accuracy::Args),
    Report(report::Args),
    Validate(validate::Args),
    List(list::Args),
    Show(show::Args),
    Export(export::Args),
    Compare(compare::Args),
    Schema(schema::Args),
    Init(init::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Cell(cell::Args),
}

impl Cli {
    /// Runs the command that was asked for; the exit code says how it went.
    ///
    /// # Errors
    /// What is wrong with the input; the exit code is then [`WRONG_INPUT`].
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(args) => run::run(args),
            Command::Plan(args) => plan::run(args),
            Command::Accuracy(args) => accuracy::run(args),
            Command::Report(args) => report::run(args),
            Command::Validate(args) => validate::run(args),
            Command::List(args) => list::run(args),
            Command::Show(args) => show::run(args),
            Command::Export(args) => export::run(args),
            Command::Compare(args) => compare::run(args),
            Command::Schema(args) => schema::run(args),
            Command::Init(args) => init::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Cell(args) => cell::run(args),
        }
    }
}

/// An error as stderr shows it: in colours where that is a terminal, as a spec's report has them.
pub fn describe(error: &anyhow::Error) -> String {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    match error.downcast_ref::<SpecError>() {
        Some(error) if colours => error.styled(),
        _ => with_causes(error),
    }
}

/// An error and what caused it, in one line. Some messages end with their cause, which is then not said twice.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people
    Table,
    /// An array of objects
    Json,
    /// Comma-separated values with a header
    Csv,
}

/// Prints to stdout. A reader that went away, as `| head` does, is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(io::Error::new(
            error.kind(),
            format!("cannot write to the standard output: {error}"),
        )),
        _ => Ok(()),
    }
}
