//! `jobs`: cells side by side, where no speeds are measured.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use expctl::records::{Record, Status};
use rustix::process::{Pid, Signal, kill_process};

use crate::background::{Running, start, wait_until_gone};
use crate::checkpoints::figures;
use crate::common::project::Project;

/// Cells of unlike sizes, each on one thread.
const SPEC: &str = "
name: beside
jobs: 2
jobs_memory: 4GiB
speeds: false
defaults: { model: tiny, dtype: float32, data: sample, eval_fraction: 0.1, max_steps: 40, threads: 1 }
sweep: { grid: { max_seq_length: [16, 64], rank: [2, 4] } }
";

/// Two cells that would train for hours.
const LONG: &str = "
name: beside
jobs: auto
speeds: false
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 10000000, threads: 1 }
sweep: { grid: { rank: [2, 4] } }
";

fn has_two_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2)
}

fn beside(project: &Project) -> Vec<usize> {
    let records = project.records().into_iter().flatten();
    records.map(|record: Record| record.concurrent_cells).collect()
}

#[test]
fn cells_side_by_side_have_the_figures_of_one_by_one() {
    if !has_two_cores() {
        return eprintln!("left out: there is one core");
    }
    let project = Project::new(SPEC);
    let output = project.run(&["--progress", "plain"]).exits(0);
    assert_eq!(beside(&project), [2; 4], "{output}");
    let one_by_one = [
        "run",
        "spec.yaml",
        "--results",
        "alone",
        "--jobs",
        "1",
        "--set",
        "speeds=true",
    ];
    project.expctl(&one_by_one).exits(0);
    for cell in project.cells() {
        let alone = project.path("alone/cells").join(cell.file_name().unwrap());
        assert_eq!(figures(&cell), figures(&alone));
    }

    // The largest first; each line says of which cell it is.
    let ids: Vec<String> = project.cells().iter().map(|cell| name(cell)).collect();
    let starts = |id: &String| output.stderr.find(&format!("] {id}")).unwrap();
    assert!(
        ids[2..].iter().map(starts).max() < ids[..2].iter().map(starts).min(),
        "{output}"
    );
    assert!(
        ids.iter().any(|id| output.stderr.contains(&format!("  {id}: ok in "))),
        "{output}"
    );

    // No speed is shown.
    for row in rows(&project) {
        assert_eq!(row["concurrent_cells"], "2");
        assert!(SPEEDS.iter().all(|column| row[*column].is_empty()), "{row:?}");
        assert!(
            !row["allocated_peak_bytes"].is_empty() && !row["loss_eval"].is_empty(),
            "{row:?}"
        );
    }
    let report = project.read("out/report.md");
    assert!(
        report.contains("Speeds were not measured, as cells may share the machine."),
        "{report}"
    );
    assert!(!report.to_lowercase().contains("tokens/s"), "{report}");

    // A study that measures speeds has those of other cells alone.
    project.write(
        "spec.yaml",
        SPEC.replace("jobs: 2", "jobs: 1")
            .replace("speeds: false", "speeds: true"),
    );
    let kept = project.run(&["--progress", "plain"]).exits(0);
    kept.stderr_has("4 kept results have no speeds, as other cells trained at the same time; --fresh makes all again");
    assert!(rows(&project).iter().all(|row| row["tokens_per_second"].is_empty()));
    project.run(&["--fresh"]).exits(0);
    for row in rows(&project) {
        assert_eq!(row["concurrent_cells"], "1");
        assert!(SPEEDS.iter().all(|column| !row[*column].is_empty()), "{row:?}");
    }
    // Nor does one that measures none show those that there are.
    project.write("spec.yaml", SPEC);
    project.run(&[]).exits(0);
    assert!(rows(&project).iter().all(|row| row["tokens_per_second"].is_empty()));
}

const SPEEDS: [&str; 4] = [
    "tokens_per_second",
    "step_seconds_median",
    "train_seconds",
    "step_seconds_spread",
];

/// The frame of the last run.
fn rows(project: &Project) -> Vec<HashMap<String, String>> {
    let mut frame = csv::Reader::from_path(project.path("out/cells.csv")).unwrap();
    frame.deserialize().collect::<Result<_, _>>().unwrap()
}

fn name(cell: &Path) -> String {
    cell.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn what_has_no_room_waits() {
    let short = SPEC.replace("max_steps: 40", "max_steps: 2");
    for (spec, note) in [
        (short.replace("4GiB", "40MiB"), false),
        (short.replace(", threads: 1", ""), true),
        (short.replace("jobs: 2", "jobs: 1"), false),
    ] {
        let project = Project::new(&spec);
        let output = project.run(&["--progress", "plain"]).exits(0);
        assert_eq!(beside(&project), [1; 4], "{spec}");
        assert_eq!(output.stderr.contains("no cell has `threads`"), note, "{output}");
    }
}

#[test]
fn speeds_are_not_measured_of_cells_side_by_side() {
    let project = Project::new(&SPEC.replace("speeds: false\n", ""));
    let output = project.expctl(&["validate", "spec.yaml"]).exits(2);
    output.stderr_has("jobs: cells that share the machine say nothing of speeds, which this study measures");
    output.stderr_has("spec.yaml:3");
    output.stderr_has("write `speeds: false`");
    let output = project.run(&["--jobs", "auto"]).exits(2);
    output.stderr_has("--set jobs=auto");
    project.run(&["--jobs", "1"]).exits(0);
    for jobs in ["--jobs=0", "--jobs=-1", "--jobs=many", "--jobs=1.5"] {
        let output = project.run(&[jobs]).exits(2);
        output.stderr_has("a number of cells, 1 or more, or `auto`");
    }
}

/// A run of [`LONG`] whose two cells train, with their processes.
fn two_long(project: &Project) -> (Running, Vec<Pid>) {
    let mut run = start(project);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        run.wait_for_a_long_step();
        let children = run.children();
        let train = |cell: &PathBuf| fs::metadata(cell.join("steps.jsonl")).is_ok_and(|file| file.len() > 0);
        let cells = fs::read_dir(project.path("out/cells")).unwrap();
        let training = cells.filter(|cell| train(&cell.as_ref().unwrap().path())).count();
        if children.len() == 2 && training == 2 {
            return (run, children);
        }
        assert!(Instant::now() < deadline, "two cells never trained at once");
    }
}

#[test]
fn what_ends_a_run_ends_all_its_cells() {
    if !has_two_cores() {
        return eprintln!("left out: there is one core");
    }
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let project = Project::new(LONG);
        let (run, children) = two_long(&project);
        run.signal(signal);
        let status = run.wait();
        children.into_iter().for_each(wait_until_gone);
        match signal {
            Signal::INT => assert_eq!(status.code(), Some(130)),
            Signal::TERM => assert_eq!(status.code(), Some(143)),
            _ => assert_eq!(status.code(), None),
        }
        assert_eq!(project.statuses(), [None, None], "nothing false is written");
        assert_eq!(project.plan(), ["run", "run"]);
    }
}

#[test]
fn a_cell_that_is_killed_leaves_the_other_alone() {
    if !has_two_cores() {
        return eprintln!("left out: there is one core");
    }
    let project = Project::new(LONG);
    let (mut run, children) = two_long(&project);
    kill_process(children[0], Signal::KILL).unwrap();
    wait_until_gone(children[0]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !project.statuses().contains(&Some(Status::Killed)) {
        run.wait_for_a_long_step();
        assert!(Instant::now() < deadline, "the outcome was never written");
    }
    assert_eq!(run.children(), [children[1]], "the other trains on");
    let killed = project.records().into_iter().flatten().collect::<Vec<_>>();
    assert_eq!((killed.len(), killed[0].concurrent_cells), (1, 2));
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
    wait_until_gone(children[1]);
    let mut statuses = project.statuses();
    statuses.sort_by_key(Option::is_some);
    assert_eq!(statuses, [None, Some(Status::Killed)]);
}

#[test]
fn a_checkpoint_without_speeds_is_not_gone_on_from_where_they_are_measured() {
    let spec = LONG
        .replace("jobs: auto\n", "record: { save_steps: 20 }\n")
        .replace("[2, 4]", "[2]");
    let project = Project::new(&(spec.clone() + "limits: { timeout: 1s }\n"));
    project.run(&[]).exits(1);
    let again = project.run(&["--progress", "plain"]).exits(1);
    again.stderr_has("goes on from the checkpoint of step");
    let measured = project.run(&["--progress", "plain", "--set", "speeds=true"]).exits(1);
    measured.stderr_has("is left out: it is of a run that measured no speeds");
    assert!(!measured.stderr.contains("goes on from"), "{measured}");
}
