//! One cell in a process of its own: started, listened to, stopped in time, and reaped.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::memory::BACKEND_VARIABLE;
use crate::results::record::Event;
use crate::results::store::CellDir;
use crate::spec::RecordSpec;
use crate::spec::cell::{AllocatorBackend, Cell};

use super::inbox::{FromChild, Inbox, Message, spawn};
use super::provenance::threads;

/// What a child may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// What may still be on its way out of a child's stdout after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

pub(super) struct Launch<'a> {
    /// Distinguishes the children of one run.
    pub(super) serial: usize,
    pub(super) dir: &'a CellDir,
    pub(super) cell: &'a Cell,
    /// Where the cell's relative input paths start.
    pub(super) base_dir: &'a Path,
    pub(super) attempt: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) record: &'a RecordSpec,
}

/// How a child ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) seconds: f64,
    /// Why it was told to end, where it was.
    pub(super) stopped: Option<Stopped>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    Timeout(Duration),
    /// By this signal to the run.
    Interrupted(c_int),
}

/// Runs one cell to its end. A signal to the run, or the timeout, stops the child: SIGTERM to its process group, and
/// SIGKILL where that is not enough.
pub(super) fn run(launch: &Launch, inbox: &mut Inbox, on_event: &mut dyn FnMut(&Event)) -> io::Result<Ended> {
    let mut command = command(launch)?;
    let started = Instant::now();
    let child = Running::start(&mut command, launch.serial, inbox.sender())?;
    let mut deadline = launch.timeout.and_then(|timeout| started.checked_add(timeout));
    let mut stopped = None;
    let mut silent = false;
    loop {
        let patience = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let reason = match inbox.receive(patience) {
            Some(Message::Child(serial, message)) => {
                match message {
                    FromChild::Event(event) if serial == launch.serial => on_event(&event),
                    FromChild::Silent if serial == launch.serial => silent = true,
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
            // The grace period is over, or somebody is in a hurry; the first reason stays the reason.
            child.signal(Signal::KILL);
            deadline = None;
        }
    }
    let status = child.reap()?;
    let seconds = started.elapsed().as_secs_f64();
    let until = Instant::now() + LAST_WORDS;
    while !silent {
        match inbox.receive(Some(until.saturating_duration_since(Instant::now()))) {
            Some(Message::Child(serial, FromChild::Event(event))) if serial == launch.serial => on_event(&event),
            Some(Message::Child(serial, FromChild::Silent)) => silent = serial == launch.serial,
            Some(_) => {}
            None => break,
        }
    }
    Ok(Ended {
        status,
        seconds,
        stopped,
    })
}

fn command(launch: &Launch) -> io::Result<Command> {
    let mut command = Command::new(this_program()?);
    command
        .arg0("expctl")
        .arg("cell")
        .arg(launch.dir.path())
        .arg("--base-dir")
        .arg(launch.base_dir)
        .args(["--attempt", &launch.attempt.to_string()])
        .args(["--parent", &std::process::id().to_string()]);
    if launch.record.timeline {
        command.args(["--timeline", &launch.record.timeline_steps.to_string()]);
    }
    for (name, value) in launch.cell.environment() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.envs(variables(launch.cell));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(launch.dir.log())?)
        // Ctrl-C goes to the run alone, which decides.
        .process_group(0);
    Ok(command)
}

/// What the cell's process must find in its environment: it is read once, before the first line of ours runs there.
pub fn variables(cell: &Cell) -> Vec<(&'static str, String)> {
    let threads = threads(cell).to_string();
    let mut variables = vec![
        ("RAYON_NUM_THREADS", threads.clone()),
        ("CANDLE_NUM_THREADS", threads),
        (BACKEND_VARIABLE, cell.backend().name().into()),
    ];
    if cell.backend() == AllocatorBackend::Retain && !cell.environment().contains_key(TUNABLES) {
        variables.push((TUNABLES, HUGE_PAGES.into()));
    }
    variables
}

/// glibc's own settings; they stay unset where the cell unsets them.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// The heap grows by huge pages, where the system gives them to those who ask (the GNU C Library's manual, "Memory
/// Allocation Tunables"; from glibc 2.35 on, and without effect before).
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// The program that runs now, even where its file was replaced since: all cells of a run are trained by one build.
fn this_program() -> io::Result<PathBuf> {
    let program = Path::new("/proc/self/exe");
    if program.exists() {
        Ok(program.to_path_buf())
    } else {
        std::env::current_exe()
    }
}

/// A child that was not reaped yet; killed where this is dropped before.
struct Running {
    child: Child,
    group: Pid,
    reaped: bool,
}

impl Running {
    fn start(command: &mut Command, serial: usize, sender: Sender<Message>) -> io::Result<Self> {
        let mut child = command.spawn()?;
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
            // Does not reap: as long as nobody did, the id is the child's and signals cannot reach another process.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::Pid(id), options));
            let _ = sender.send(Message::Child(serial, FromChild::Exited));
        })?;
        Ok(running)
    }

    fn signal(&self, signal: Signal) {
        // Fails where the group has ended by itself, which is as good.
        let _ = kill_process_group(self.group, signal);
    }

    fn reap(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
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

fn forward_events(stdout: ChildStdout, serial: usize, sender: &Sender<Message>) {
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        // What is not an event was printed by some library; it is not ours to interpret.
        let Ok(event) = serde_json::from_slice(&line) else {
            continue;
        };
        if sender.send(Message::Child(serial, FromChild::Event(event))).is_err() {
            return;
        }
    }
    let _ = sender.send(Message::Child(serial, FromChild::Silent));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_set_what_the_run_sets() {
        for (name, value) in variables(&Cell::default()) {
            let mut cell = Cell::default();
            cell.env.insert(name.into(), Some(value));
            assert_eq!(cell.validate().unwrap_err().key, format!("env.{name}"));
        }
    }

    #[test]
    fn huge_pages_are_for_the_heap_that_keeps_them() {
        let tunables = |backend| {
            let mut cell = Cell::default();
            cell.allocator.backend = Some(backend);
            variables(&cell).iter().any(|(name, _)| *name == TUNABLES)
        };
        assert_eq!(
            [
                AllocatorBackend::System,
                AllocatorBackend::Retain,
                AllocatorBackend::Mimalloc
            ]
            .map(tunables),
            [false, true, false]
        );
    }

    #[test]
    fn what_the_cell_unsets_stays_unset() {
        let mut cell = Cell::default();
        cell.env.insert(TUNABLES.into(), None);
        assert!(variables(&cell).iter().all(|(name, _)| *name != TUNABLES));
    }
}
