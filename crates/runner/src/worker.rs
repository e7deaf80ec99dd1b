//! The program that trains cells: how it is asked about its machine, and how it is started.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cell::Cell;
use records::store::CellDir;
use records::{WorkerMachine, schema};
use serde_json::Value;
use spec::RecordSpec;

use super::protocol::{Arguments, MACHINE_COMMAND, variables};

/// A worker to start.
pub(super) struct Launch<'a> {
    pub(super) dir: &'a CellDir,
    pub(super) cell: &'a Cell,
    /// The folder where the cell's relative input paths start.
    pub(super) base_dir: &'a Path,
    pub(super) attempt: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) record: &'a RecordSpec,
    /// True if other cells may train beside it.
    pub(super) shares_machine: bool,
    /// SHA-256 of the file that its adapter's keys came from.
    pub(super) adapter_config_sha256: Option<String>,
    /// Takes the largest step alone.
    pub(super) trial: bool,
}

/// The running program, whose process goes by this name, even if its file was replaced since.
pub(super) fn own_program(process: &str) -> io::Result<PathBuf> {
    let program = Path::new("/proc").join(process).join("exe");
    match program.exists() {
        true => Ok(program),
        false => std::env::current_exe(),
    }
}

/// The program that trains cells, each in a process of its own.
#[derive(Debug, Clone)]
pub struct Worker {
    program: PathBuf,
    /// Words before the command.
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    is_own: bool,
}

impl Worker {
    /// The running program, even if its file was replaced since: one build trains all cells of a run.
    ///
    /// # Errors
    /// The system does not know where it is.
    pub fn this_program() -> io::Result<Self> {
        Ok(Self {
            program: own_program("self")?,
            arguments: Vec::new(),
            environment: Vec::new(),
            is_own: true,
        })
    }

    /// Another program, which follows the protocol.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            is_own: false,
        }
    }

    /// A program with arguments of its own, the first word of `line`, and variables in its environment.
    pub(super) fn with_arguments(line: Vec<OsString>, environment: Vec<(&'static str, OsString)>) -> Self {
        let mut words = line.into_iter();
        Self {
            program: words.next().unwrap_or_default().into(),
            arguments: words.collect(),
            environment,
            is_own: false,
        }
    }

    /// The machine that it trains on.
    ///
    /// # Errors
    /// It cannot be started, prints something else, or follows another version of the protocol.
    pub fn machine(&self) -> io::Result<WorkerMachine> {
        let output = self.command().arg(MACHINE_COMMAND).stdin(Stdio::null()).output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        let silent = |error: serde_json::Error| {
            io::Error::other(format!(
                "it does not say what machine it is on ({error}) {}",
                words.trim()
            ))
        };
        let said: Value = serde_json::from_slice(&output.stdout).map_err(silent)?;
        match said["protocol"].as_u64() {
            Some(version) if version == u64::from(schema::VERSION) => serde_json::from_value(said).map_err(silent),
            Some(other) => Err(io::Error::other(format!(
                "it follows version {other} of the protocol, and this run version {}",
                schema::VERSION
            ))),
            None => Err(io::Error::other("it names no version of the protocol")),
        }
    }

    /// The program, to be given a command.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_own {
            // Not the path of the running program, which says nothing.
            command.arg0("expctl");
        }
        let environment = self.environment.iter().map(|(name, value)| (*name, value));
        command.args(&self.arguments).envs(environment);
        command
    }

    /// The command that trains a cell.
    ///
    /// # Errors
    /// Its log cannot be created.
    pub(super) fn launch(&self, launch: &Launch) -> io::Result<Command> {
        let arguments = Arguments {
            dir: launch.dir.path().to_path_buf(),
            base_dir: launch.base_dir.to_path_buf(),
            attempt: launch.attempt,
            parent: Some(rustix::process::getpid().as_raw_pid()),
            timeline: (launch.record.timeline && !launch.trial).then_some(launch.record.timeline_steps),
            save_model: launch.record.model.clone().filter(|_| !launch.trial),
            save_steps: launch.record.save_steps.map(|steps| steps.0).filter(|_| !launch.trial),
            save_total_limit: launch.record.save_total_limit,
            shares_machine: launch.shares_machine,
            adapter_config_sha256: launch.adapter_config_sha256.clone(),
            trial: launch.trial,
        };
        let mut command = self.command();
        command.args(arguments.to_command_line());
        let own = launch.cell.environment().into_iter();
        let own = own.map(|(name, value)| (name, value.map(str::to_owned)));
        for (name, value) in own.chain(variables(launch.cell)) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(launch.dir.log())?)
            // Ctrl-C goes to the run alone, which decides.
            .process_group(0);
        Ok(command)
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())
    }
}
