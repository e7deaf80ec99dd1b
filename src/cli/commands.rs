//! The command line.

use std::process::{self, ExitCode};

use anyhow::Context as _;
use clap::{CommandFactory, Parser, Subcommand};
use runner::{protocol, samples};

use super::output::INVALID_INPUT;
use super::{
    accuracy, cell, compare, completions, data, export, fit, import, init, inputs, list, machine, merge, plan, report,
    run, schema, show, unknown_flag, validate, verdicts, version,
};
use crate::worker;

/// Fine-tuning experiments from a YAML file: what each configuration needs in memory and time, measured by training it.
#[derive(Debug, Parser)]
#[command(name = "expctl", version = version::line(), propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Fit(fit::Args),
    Accuracy(accuracy::Args),
    Verdicts(verdicts::Args),
    Report(report::Args),
    Validate(validate::Args),
    Import(import::Args),
    Data(data::Args),
    List(list::Args),
    Show(show::Args),
    Export(export::Args),
    Merge(merge::Args),
    Compare(compare::Args),
    Schema(schema::Args),
    Init(init::Args),
    Completions(completions::Args),
    #[command(hide = true, name = protocol::COMMAND)]
    Cell(protocol::Arguments),
    /// Print what this machine offers to cells, as JSON
    #[command(hide = true, name = protocol::MACHINE_COMMAND)]
    Machine,
    #[command(hide = true, name = protocol::INPUTS_COMMAND)]
    Inputs(protocol::InputsArguments),
    #[command(hide = true, name = samples::COMMAND)]
    Samples(samples::Arguments),
}

impl Command {
    /// True if the command plans or reads with several threads. A worker starts those of its cell.
    fn uses_threads(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Plan(_)
                | Self::Fit(_)
                | Self::Accuracy(_)
                | Self::Verdicts(_)
                | Self::Report(_)
                | Self::Validate(_)
                | Self::Compare(_)
                | Self::Merge(_)
        )
    }
}

impl Cli {
    /// Reads the command line. Mistakes and `--help` end the program.
    pub fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| match unknown_flag::help(&error) {
            None => error.exit(),
            Some(help) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                eprintln!("{first}\n\n  help: {help}\n\nFor more information, try '--help'.");
                process::exit(INVALID_INPUT.into())
            }
        })
    }

    /// Runs the command and gives its exit code.
    ///
    /// # Errors
    /// Wrong input; the exit code is then [`INVALID_INPUT`](super::INVALID_INPUT).
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !matches!(self.command, Command::Cell(_)) {
            // Plans take and free the same tens of MB many times. What a cell's process does is measured.
            memory::keep_freed_pages();
        }
        if self.command.uses_threads() {
            // The library panics at their first use if they cannot be started.
            let started = rayon::ThreadPoolBuilder::new().build_global();
            started.context("cannot start the threads that plan")?;
        }
        match self.command {
            Command::Run(args) => run::run(args),
            Command::Plan(args) => plan::run(&args),
            Command::Fit(args) => fit::run(&args),
            Command::Accuracy(args) => accuracy::run(args),
            Command::Verdicts(args) => verdicts::run(args),
            Command::Report(args) => report::run(&args),
            Command::Validate(args) => validate::run(args),
            Command::Import(args) => import::run(&args),
            Command::Data(args) => data::run(&args),
            Command::List(args) => list::run(args),
            Command::Show(args) => show::run(args),
            Command::Export(args) => export::run(args),
            Command::Merge(args) => merge::run(&args),
            Command::Compare(args) => compare::run(args),
            Command::Schema(args) => schema::run(args),
            Command::Init(args) => init::run(args),
            Command::Completions(args) => completions::run(args, Cli::command()),
            Command::Cell(args) => cell::run(&args),
            Command::Machine => machine::run(),
            Command::Inputs(args) => inputs::run(&args),
            Command::Samples(args) => Ok(worker::read_samples(&args)?),
        }
    }
}
