//! The program that trains cells: how it is asked about its machine, started, heard, stopped in time, and how it ends.

use std::ffi::OsString;
use std::ffi::c_int;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cell::Cell;
use memory::control_group::oom_kills;
use memory::probes::{reap, usable_bytes};
use records::store::CellDir;
use records::{Event, Found, WorkerMachine, schema};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;
use spec::RecordSpec;

use super::events::{Events, FromChild, Message, spawn};
use super::protocol::{Arguments, MACHINE_COMMAND, read_event, variables};

/// Time for a child to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Time for the rest of a child's stdout to arrive after its end.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The value of `oom_score_adj` that the kernel ends first (proc(5)).
const MOST_LIKELY: &str = "1000";

/// A worker to start.
pub(super) struct Launch<'a> {
    /// Distinguishes the children of one run.
    pub(super) serial: usize,
    pub(super) dir: &'a CellDir,
    pub(super) cell: &'a Cell,
    /// The folder where the cell's relative input paths start.
    pub(super) base_dir: &'a Path,
    pub(super) attempt: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) record: &'a RecordSpec,
    /// SHA-256 of the file that its adapter's keys came from.
    pub(super) adapter_config_sha256: Option<String>,
    /// Takes the largest step alone.
    pub(super) trial: bool,
}

/// The end of a child.
pub(super) struct Exit {
    pub(super) end: End,
    pub(super) seconds: f64,
    /// The reason why the run stopped it; `None` if it ended by itself.
    pub(super) stopped: Option<Stopped>,
    /// What the kernel did for want of memory meanwhile.
    pub(super) shortage: Shortage,
    /// What the worker said of itself when it started.
    pub(super) found: Option<Found>,
}

/// What the kernel did for want of memory while a child ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortage {
    /// The system does not say.
    Unknown,
    /// It ended no process.
    None,
    /// It ended a process, and the child had little of the memory.
    OfOthers,
    /// It ended a process, and the child had most of the memory.
    OfChild,
}

impl Shortage {
    /// What it did since it had ended so many processes. The child had so many bytes at most.
    fn since(kills_before: Option<u64>, child: u64) -> Self {
        let (Some(before), Some(after)) = (kills_before, oom_kills()) else {
            return Self::Unknown;
        };
        if after <= before {
            return Self::None;
        }
        match usable_bytes() {
            Some(usable) if child < usable / 2 => Self::OfOthers,
            _ => Self::OfChild,
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(c_int),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        status
            .signal()
            .map_or(Self::Code(status.code().unwrap_or_default()), Self::Signal)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// The reason why a run stops a child.
pub(super) enum Stopped {
    /// The limit of an attempt.
    Timeout(Duration),
    /// This signal to the run.
    Interrupted(c_int),
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

    /// Runs one cell to its end. A signal to the run, or the timeout, stops the child: SIGTERM to its process group,
    /// and SIGKILL if that is not enough.
    pub(super) fn run(
        &self,
        launch: &Launch,
        events: &mut Events,
        on_event: &mut dyn FnMut(&Event),
    ) -> io::Result<Exit> {
        let mut found = None;
        let _queued = events.queue_signals();
        let mut on_event = |event: Event| match event {
            Event::Started(own) => found = Some(*own),
            event => on_event(&event),
        };
        let mut command = self.launch(launch)?;
        let kills_before = oom_kills();
        let started = Instant::now();
        let child = Running::start(&mut command, launch.serial, events.sender())?;
        let mut deadline = launch.timeout.and_then(|timeout| started.checked_add(timeout));
        let mut stopped = None;
        let mut stdout_closed = false;
        loop {
            let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let reason = match events.receive(remaining) {
                Some(Message::Child(serial, message)) => {
                    match message {
                        FromChild::Event(event) if serial == launch.serial => on_event(event),
                        FromChild::StdoutClosed if serial == launch.serial => stdout_closed = true,
                        FromChild::Exited if serial == launch.serial => break,
                        _ => {}
                    }
                    continue;
                }
                Some(Message::Signal(signal)) => Stopped::Interrupted(signal),
                None => Stopped::Timeout(launch.timeout.unwrap_or_default()),
            };
            if stopped.is_none() {
                stopped = Some(reason);
                child.signal(Signal::TERM);
                deadline = Instant::now().checked_add(GRACE);
            } else {
                // The grace period is over, or a second signal came. The first reason stays the reason.
                child.signal(Signal::KILL);
                deadline = None;
            }
        }
        // What the worker has started ends with it.
        child.signal(Signal::KILL);
        let (status, peak) = child.reap()?;
        let seconds = started.elapsed().as_secs_f64();
        let until = Instant::now() + DRAIN_TIMEOUT;
        while !stdout_closed {
            match events.receive(Some(until.saturating_duration_since(Instant::now()))) {
                Some(Message::Child(serial, FromChild::Event(event))) if serial == launch.serial => on_event(event),
                Some(Message::Child(serial, FromChild::StdoutClosed)) => stdout_closed = serial == launch.serial,
                Some(_) => {}
                None => break,
            }
        }
        Ok(Exit {
            end: status.into(),
            seconds,
            stopped,
            shortage: Shortage::since(kills_before, peak),
            found,
        })
    }

    fn launch(&self, launch: &Launch) -> io::Result<Command> {
        let arguments = Arguments {
            dir: launch.dir.path().to_path_buf(),
            base_dir: launch.base_dir.to_path_buf(),
            attempt: launch.attempt,
            parent: Some(rustix::process::getpid().as_raw_pid()),
            timeline: (launch.record.timeline && !launch.trial).then_some(launch.record.timeline_steps),
            save_model: launch.record.model.clone().filter(|_| !launch.trial),
            save_steps: launch.record.save_steps.map(|steps| steps.0).filter(|_| !launch.trial),
            save_total_limit: launch.record.save_total_limit,
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

/// A child that is not reaped yet. Dropping this kills it.
struct Running {
    child: Child,
    group: Pid,
    reaped: bool,
}

impl Running {
    fn start(command: &mut Command, serial: usize, sender: Sender<Message>) -> io::Result<Self> {
        let mut child = command.spawn()?;
        end_first(&child);
        let stdout = child.stdout.take();
        let running = Self {
            group: Pid::from_child(&child),
            child,
            reaped: false,
        };
        if let Some(stdout) = stdout {
            let sender = sender.clone();
            spawn("events", move || forward_events(stdout, serial, &sender))?;
        }
        let id = running.group;
        spawn("child", move || {
            // This does not reap: until then the id is the child's, so signals cannot reach another process.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::Pid(id), options));
            let _ = sender.send(Message::Child(serial, FromChild::Exited));
        })?;
        Ok(running)
    }

    fn signal(&self, signal: Signal) {
        // Fails if the group has ended by itself, which is fine.
        let _ = kill_process_group(self.group, signal);
    }

    /// Its status, and the most bytes that it had.
    fn reap(mut self) -> io::Result<(ExitStatus, u64)> {
        let ended = reap(self.child.id())?;
        self.reaped = true;
        Ok(ended)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Has the kernel end the child, and not the run, when memory runs out. A system without this setting decides for itself.
pub(super) fn end_first(child: &Child) {
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), MOST_LIKELY);
}

fn forward_events(stdout: ChildStdout, serial: usize, sender: &Sender<Message>) {
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        let Some(event) = read_event(&line) else {
            continue;
        };
        if sender.send(Message::Child(serial, FromChild::Event(event))).is_err() {
            return;
        }
    }
    let _ = sender.send(Message::Child(serial, FromChild::StdoutClosed));
}
