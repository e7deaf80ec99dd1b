//! A worker's process, from its start to its end: how it is heard, stopped in time, and reaped. Several may run at once.

use std::ffi::c_int;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use memory::control_group::oom_kills;
use memory::probes::{process_peak_bytes_of, reap, usable_bytes};
use records::{Event, Found};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::events::{Events, FromChild, Message, spawn};
use super::protocol::read_event;
use super::worker::{Launch, Worker};

/// Time for a child to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Time for the rest of a child's stdout to arrive after its end.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The value of `oom_score_adj` that the kernel ends first (proc(5)).
const MOST_LIKELY: &str = "1000";

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

/// The reason why a run stops a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The limit of an attempt.
    Timeout(Duration),
    /// This signal to the run.
    Interrupted(c_int),
}

/// A child that trains a cell. Dropping it kills the child.
pub(super) struct Job {
    serial: usize,
    child: Running,
    started: Instant,
    timeout: Option<Duration>,
    /// When it is stopped, killed, or no longer heard.
    deadline: Option<Instant>,
    stopped: Option<Stopped>,
    kills_before: Option<u64>,
    found: Option<Found>,
    stdout_closed: bool,
    ended: Option<Ended>,
}

/// What is known once the child is reaped.
struct Ended {
    end: End,
    seconds: f64,
    shortage: Shortage,
}

impl Job {
    /// Starts a worker.
    pub(super) fn start(worker: &Worker, launch: &Launch, events: &mut Events) -> io::Result<Self> {
        let mut command = worker.launch(launch)?;
        let (serial, kills_before, started) = (events.serial(), oom_kills(), Instant::now());
        Ok(Self {
            serial,
            child: Running::start(&mut command, serial, events.sender())?,
            started,
            timeout: launch.timeout,
            deadline: launch.timeout.and_then(|timeout| started.checked_add(timeout)),
            stopped: None,
            kills_before,
            found: None,
            stdout_closed: false,
            ended: None,
        })
    }

    /// The most memory that its process had so far.
    pub(super) fn process_peak_bytes(&self) -> Option<u64> {
        process_peak_bytes_of(self.child.child.id())
    }

    /// Takes a message of its child. Returns an event that says something of the cell.
    fn hear(&mut self, message: FromChild) -> io::Result<Option<Event>> {
        match message {
            FromChild::Event(Event::Started(found)) => self.found = Some(*found),
            FromChild::Event(event) => return Ok(Some(event)),
            FromChild::StdoutClosed => self.stdout_closed = true,
            FromChild::Exited => {
                // What the worker has started ends with it.
                self.child.signal(Signal::KILL);
                let (status, peak) = self.child.reap()?;
                self.ended = Some(Ended {
                    end: status.into(),
                    seconds: self.started.elapsed().as_secs_f64(),
                    shortage: Shortage::since(self.kills_before, peak),
                });
                self.deadline = Instant::now().checked_add(DRAIN_TIMEOUT);
            }
        }
        Ok(None)
    }

    /// Stops the child: SIGTERM to its process group, and SIGKILL if that is not enough, or the second time. The first
    /// reason stays the reason.
    fn stop(&mut self, reason: Stopped) {
        if self.ended.is_some() {
            return;
        }
        if self.stopped.is_none() {
            self.stopped = Some(reason);
            self.child.signal(Signal::TERM);
            self.deadline = Instant::now().checked_add(GRACE);
        } else {
            self.child.signal(Signal::KILL);
            self.deadline = None;
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// True once the child has ended, and all that it said was heard.
    fn is_over(&self, now: Instant) -> bool {
        self.ended.is_some() && (self.stdout_closed || self.is_due(now))
    }

    /// How it ended; `None` if it has not.
    pub(super) fn into_exit(self) -> Option<Exit> {
        let Ended { end, seconds, shortage } = self.ended?;
        Some(Exit {
            end,
            seconds,
            stopped: self.stopped,
            shortage,
            found: self.found,
        })
    }
}

/// Waits until one of several jobs, of which there is one at least, is over, and takes it out. Meanwhile the limits of
/// their attempts and signals to the run stop them.
pub(super) fn wait_for_one<T: AsMut<Job>>(
    jobs: &mut Vec<T>,
    events: &mut Events,
    on_event: &mut dyn FnMut(&T, &Event),
) -> io::Result<T> {
    loop {
        let now = Instant::now();
        if let Some(over) = jobs.iter_mut().position(|job| job.as_mut().is_over(now)) {
            return Ok(jobs.remove(over));
        }
        for job in jobs.iter_mut().map(AsMut::as_mut).filter(|job| job.is_due(now)) {
            job.stop(Stopped::Timeout(job.timeout.unwrap_or_default()));
        }
        let next = jobs.iter_mut().filter_map(|job| job.as_mut().deadline).min();
        let remaining = next.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match events.receive(remaining) {
            Some(Message::Child(serial, message)) => {
                // A message of a job that is over comes too late.
                let place = jobs.iter_mut().position(|job| job.as_mut().serial == serial);
                if let Some(job) = place.map(|place| &mut jobs[place])
                    && let Some(event) = job.as_mut().hear(message)?
                {
                    on_event(job, &event);
                }
            }
            Some(Message::Signal(signal)) => {
                let jobs = jobs.iter_mut().map(AsMut::as_mut);
                jobs.for_each(|job: &mut Job| job.stop(Stopped::Interrupted(signal)));
            }
            None => {}
        }
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
    fn reap(&mut self) -> io::Result<(ExitStatus, u64)> {
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
