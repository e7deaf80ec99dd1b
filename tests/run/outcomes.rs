//! Cells that do not end well: failed, killed, out of time, out of memory.

use std::time::{Duration, Instant};

use expctl::records::Status;
use rustix::process::{Signal, kill_process};

use crate::background::start;
use crate::common::project::Project;
use crate::{LONG_THEN_QUICK, QUICK};

/// A cell whose data has no sample, then one whose data is good.
const BROKEN_THEN_QUICK: &str = "
name: broken
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 2 }
sweep: { grid: { data: [{ path: short.txt }, synthetic] } }
";

fn broken_then_quick() -> Project {
    let project = Project::new(BROKEN_THEN_QUICK);
    project.write("short.txt", "a\n");
    project
}

#[test]
fn a_failing_cell_stops_nothing_and_is_tried_again() {
    let project = broken_then_quick();
    let output = project.run(&[]).exits(1);
    assert_eq!(project.statuses(), [Some(Status::Failed), Some(Status::Ok)]);
    let reason = project.records()[0].as_ref().unwrap().reason.clone().unwrap();
    output.stdout_has(&reason);
    assert!(output.stdout.contains("log.txt"));
    assert!(reason.contains("short.txt: nothing to train on"), "{reason}");

    assert_eq!(project.plan(), ["run", "keep (ok)"]);
    project.run(&[]).exits(1);
    let attempts: Vec<_> = project
        .records()
        .into_iter()
        .map(|record| record.unwrap().attempt)
        .collect();
    assert_eq!(attempts, [2, 1]);
}

#[test]
fn fail_fast_stops_at_the_first_failure() {
    let project = broken_then_quick();
    let output = project.run(&["--fail-fast"]).exits(1);
    assert_eq!(project.statuses(), [Some(Status::Failed), None]);
    output.stdout_has("1 still to do");
}

#[test]
fn a_cell_past_its_timeout_is_stopped() {
    let project = Project::new(&(LONG_THEN_QUICK.to_owned() + "limits: { timeout: 2s }\n"));
    let started = Instant::now();
    project.run(&[]).exits(1);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(project.statuses(), [Some(Status::Timeout), Some(Status::Ok)]);
    let record = project.records()[0].clone().unwrap();
    assert_eq!(record.timeout_seconds, Some(2.0));
    assert_eq!(record.reason.as_deref(), Some("stopped at the limit of 2s"));
    // another limit is not another cell
    project.write("spec.yaml", LONG_THEN_QUICK.to_owned() + "limits: { timeout: 1s }\n");
    assert_eq!(project.plan(), ["run", "keep (ok)"]);
}

#[test]
fn a_killed_cell_is_recorded_and_the_others_go_on() {
    let project = Project::new(LONG_THEN_QUICK);
    let mut run = start(&project);
    run.wait_for_a_long_step();
    kill_process(run.child(), Signal::KILL).unwrap();
    assert_eq!(run.wait().code(), Some(1));
    assert_eq!(project.statuses(), [Some(Status::Killed), Some(Status::Ok)]);
    let reason = project.records()[0].clone().unwrap().reason.unwrap();
    assert!(reason.contains("SIGKILL; not by expctl"), "{reason}");
}

#[test]
fn out_of_memory_is_a_result() {
    let project = Project::new(&QUICK.replace("max_steps: 2", "max_steps: 2, device_memory: 100KiB"));
    project.run(&[]).exits(0);
    for record in project.records().into_iter().flatten() {
        assert_eq!(record.status, Status::Oom);
        let oom = record.oom.unwrap();
        assert_eq!(oom.budget_bytes, Some(100 << 10));
        assert!(oom.allocated_bytes + oom.requested_bytes > 100 << 10);
        assert!(record.reason.unwrap().contains(&oom.phase));
    }
    assert_eq!(project.plan(), ["keep (oom)", "keep (oom)"]);
}
