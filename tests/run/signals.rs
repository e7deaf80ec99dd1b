//! Runs that are interrupted or killed, and two runs in one folder.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use expctl::records::Status;
use rustix::process::Signal;

use crate::background::{start, stop, wait_until_gone};
use crate::common::project::Project;
use crate::{LONG_THEN_QUICK, QUICK_THEN_LONG};

#[test]
fn a_killed_run_takes_its_cell_along_and_can_be_resumed() {
    let project = Project::new(QUICK_THEN_LONG);
    let mut run = start(&project);
    run.wait_for_a_long_step();
    let child = run.child();
    run.signal(Signal::KILL);
    run.wait();
    wait_until_gone(child);
    assert_eq!(project.statuses(), [Some(Status::Ok), None]);
    assert_eq!(project.plan(), ["keep (ok)", "run"]);
    // the lock went with its holder
    project.write("spec.yaml", QUICK_THEN_LONG.replace("10000000", "3"));
    project.run(&[]).exits(0);
    assert_eq!(project.statuses(), [Some(Status::Ok); 2]);
}

#[test]
fn a_signal_stops_the_run_cleanly() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let project = Project::new(QUICK_THEN_LONG);
        let mut run = start(&project);
        run.wait_for_a_long_step();
        let child = run.child();
        run.signal(signal);
        assert_eq!(run.wait().code(), Some(code));
        wait_until_gone(child);
        assert_eq!(project.statuses(), [Some(Status::Ok), None], "nothing false is written");
        assert_eq!(project.plan(), ["keep (ok)", "run"]);
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    let project = Project::new(QUICK_THEN_LONG);
    let mut run = start(&project);
    run.wait_for_a_long_step();
    let child = run.child();
    // a cell that hears nothing: the run would give it two seconds before it kills it
    stop(child);
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    let second = Instant::now();
    run.signal(Signal::INT);
    assert_eq!(run.wait().signal(), Some(Signal::INT.as_raw()));
    assert!(second.elapsed() < Duration::from_secs(1));
    wait_until_gone(child);
    assert_eq!(project.statuses(), [Some(Status::Ok), None]);
}

#[test]
fn a_cell_that_hears_nothing_is_killed() {
    let project = Project::new(QUICK_THEN_LONG);
    let mut run = start(&project);
    run.wait_for_a_long_step();
    let child = run.child();
    stop(child);
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
    wait_until_gone(child);
}

#[test]
fn an_interrupted_second_attempt_is_no_result() {
    let project = Project::new(&(LONG_THEN_QUICK.to_owned() + "limits: { timeout: 1s }\n"));
    project.run(&[]).exits(1);
    project.write("spec.yaml", LONG_THEN_QUICK);
    let mut run = start(&project);
    run.wait_for_a_long_step();
    run.signal(Signal::INT);
    run.wait();
    assert_eq!(project.statuses(), [None, Some(Status::Ok)]);
    let cells = project.dry_run();
    assert_eq!(cells[0]["attempt"], 2, "attempts are counted over interruptions");
}

#[test]
fn a_second_run_in_the_same_folder_is_refused() {
    let project = Project::new(QUICK_THEN_LONG);
    let mut run = start(&project);
    run.wait_for_a_long_step();
    let second = project.run(&[]).exits(2);
    let holder = format!("process {}", run.run.id());
    second.stderr_has("`out`").stderr_has(&holder);
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
}
