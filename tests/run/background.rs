//! A run in the background, and the processes it consists of.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::project::Project;

/// Starts `expctl run`; its events are read by the test.
pub fn start(project: &Project) -> Running {
    let mut run = project
        .run_command(&["--progress", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let events = BufReader::new(run.stdout.take().unwrap());
    Running { run, events }
}

pub struct Running {
    pub run: Child,
    events: BufReader<ChildStdout>,
}

impl Running {
    /// Waits for the first step of a cell's training that would take hours.
    pub fn wait_for_a_long_step(&mut self) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "the run ended first");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["cell"]["event"] == "step" && event["cell"]["steps"] == 10_000_000 {
                return;
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.run), signal).unwrap();
    }

    /// The process that trains.
    pub fn child(&self) -> Pid {
        self.find_child().expect("a cell runs")
    }

    /// Waits until a process other than `before` trains.
    pub fn wait_for_another(&mut self, before: Pid) -> Pid {
        loop {
            // The run must not wait for a reader of its events.
            self.wait_for_a_long_step();
            if let Some(child) = self.find_child().filter(|child| *child != before) {
                return child;
            }
        }
    }

    fn find_child(&self) -> Option<Pid> {
        self.children().into_iter().next()
    }

    /// The processes that train.
    pub fn children(&self) -> Vec<Pid> {
        let parent = format!("PPid:\t{}", self.run.id());
        let is_child = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == parent)
        };
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.into_iter().filter(is_child).filter_map(Pid::from_raw).collect()
    }

    pub fn wait(mut self) -> ExitStatus {
        std::io::copy(&mut self.events, &mut std::io::sink()).unwrap();
        self.run.wait().unwrap()
    }
}

pub fn wait_until_gone(pid: Pid) {
    // an unreaped process stays as a zombie, which is gone enough
    wait_for(pid, "is gone", |stat| stat.is_none_or(|stat| stat.contains(") Z ")));
}

/// Stops a process, and waits until it is: of two signals that wait for a process, the kernel delivers the lower number
/// first, so that a SIGTERM sent at once after a SIGSTOP would be heard.
pub fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    wait_for(pid, "is stopped", |stat| stat.is_some_and(|stat| stat.contains(") T ")));
}

/// Waits for what the kernel says of a process (`/proc/PID/stat`; `None` if it is gone).
fn wait_for(pid: Pid, what: &str, holds: impl Fn(Option<&str>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    let process = format!("/proc/{}/stat", pid.as_raw_nonzero());
    while !holds(fs::read_to_string(&process).ok().as_deref()) {
        assert!(Instant::now() < deadline, "the cell's process never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
