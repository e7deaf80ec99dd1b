//! `expctl run`, as a user sees it: outcomes, resuming, signals, and places that cannot be written to.
#![cfg(target_os = "linux")]

mod timeline;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use expctl::results::record::{Record, Status};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Two cells that train in no time.
const QUICK: &str = "
name: quick
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 2 }
sweep: { grid: { rank: [2, 4] } }
";

/// A quick cell, then one that would train for hours.
const QUICK_THEN_LONG: &str = "
name: long
defaults: { model: tiny, dtype: float32, max_seq_length: 16 }
sweep: { grid: { max_steps: [2, 10000000] } }
";

/// One that would train for hours, then a quick one.
const LONG_THEN_QUICK: &str = "
name: long
defaults: { model: tiny, dtype: float32, max_seq_length: 16 }
sweep: { grid: { max_steps: [10000000, 2] } }
";

/// A cell whose data has no sample, then one whose data is good.
const BROKEN_THEN_QUICK: &str = "
name: broken
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 2 }
sweep: { grid: { data: [{ path: short.txt }, synthetic] } }
";

/// A spec in a folder of its own.
struct Study {
    folder: TempDir,
}

impl Study {
    fn new(spec: &str) -> Self {
        let study = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        study.write_spec(spec);
        fs::write(study.path().join("short.txt"), "a\n").unwrap();
        study
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write_spec(&self, spec: &str) {
        fs::write(self.path().join("spec.yaml"), spec).unwrap();
    }

    fn results(&self) -> PathBuf {
        self.path().join("out")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expctl"));
        command
            .current_dir(self.path())
            .args(["run", "spec.yaml", "--results", "out"])
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What `--dry-run` would do with each cell, in the study's order.
    fn plan(&self) -> Vec<String> {
        let output = self.run(&["--dry-run", "--format", "json"]);
        let cells: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        cells
            .iter()
            .map(|cell| cell["plan"].as_str().unwrap().to_owned())
            .collect()
    }

    fn cells(&self) -> Vec<PathBuf> {
        let output = self.run(&["--dry-run", "--format", "json"]);
        let cells: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        cells
            .iter()
            .map(|cell| self.results().join("cells").join(cell["cell_id"].as_str().unwrap()))
            .collect()
    }

    /// The records in the study's order; none where a cell has none.
    fn records(&self) -> Vec<Option<Record>> {
        let read = |cell: &PathBuf| Some(serde_json::from_slice(&fs::read(cell.join("record.json")).ok()?).unwrap());
        self.cells().iter().map(read).collect()
    }

    fn statuses(&self) -> Vec<Option<Status>> {
        self.records()
            .into_iter()
            .map(|record| record.map(|record| record.status))
            .collect()
    }

    /// A run in the background, which the test hears.
    fn start(&self) -> Running {
        let mut run = self
            .command(&["--progress", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(run.stdout.take().unwrap());
        Running { run, events }
    }
}

struct Running {
    run: Child,
    events: BufReader<ChildStdout>,
}

impl Running {
    /// Waits for the first step of a cell's training that would take hours.
    fn wait_for_a_long_step(&mut self) {
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

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.run), signal).unwrap();
    }

    /// The process that trains.
    fn child(&self) -> Pid {
        let parent = format!("PPid:\t{}", self.run.id());
        let is_child = |pid: &i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == parent)
        };
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        Pid::from_raw(pids.into_iter().find(is_child).expect("a cell runs")).unwrap()
    }

    fn wait(mut self) -> ExitStatus {
        std::io::copy(&mut self.events, &mut std::io::sink()).unwrap();
        self.run.wait().unwrap()
    }
}

fn wait_until_gone(pid: Pid) {
    // a process that nobody reaps stays as a zombie, which is gone enough
    wait_for(pid, "is gone", |stat| stat.is_none_or(|stat| stat.contains(") Z ")));
}

/// Stops a process, and waits until it is: of two signals that wait for a process, the kernel delivers the lower number
/// first, so that a SIGTERM sent at once after a SIGSTOP would be heard.
fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    wait_for(pid, "is stopped", |stat| stat.is_some_and(|stat| stat.contains(") T ")));
}

/// Waits for what the kernel says of a process (`/proc/PID/stat`; nothing, where it is gone).
fn wait_for(pid: Pid, what: &str, holds: impl Fn(Option<&str>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    let process = format!("/proc/{}/stat", pid.as_raw_nonzero());
    while !holds(fs::read_to_string(&process).ok().as_deref()) {
        assert!(Instant::now() < deadline, "the cell's process never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_second_run_does_nothing_and_a_fresh_one_everything() {
    let study = Study::new(QUICK);
    assert_eq!(study.plan(), ["run", "run"]);
    assert!(!study.results().exists(), "a dry run writes nothing");
    let first = study.run(&[]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert!(
        text(&first.stdout).contains("quick: 2 of 2 cells have a result in out"),
        "{}",
        text(&first.stdout)
    );
    assert_eq!(study.statuses(), [Some(Status::Ok); 2]);
    assert_eq!(study.plan(), ["keep (ok)", "keep (ok)"]);
    for cell in study.cells() {
        let steps = fs::read_to_string(cell.join("steps.jsonl")).unwrap();
        assert_eq!(steps.lines().count(), 2);
        assert!(cell.join("cell.yaml").exists() && cell.join("log.txt").exists());
        assert!(!cell.join("oom.json").exists() && !cell.join("record.previous.json").exists());
    }

    let records = study.records();
    let second = study.run(&["--progress", "json"]);
    assert_eq!(second.status.code(), Some(0));
    let started: Value = serde_json::from_str(text(&second.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((&started["to_run"], &started["kept"]), (&0.into(), &2.into()));
    assert_eq!(study.records(), records);

    assert_eq!(study.run(&["--fresh"]).status.code(), Some(0));
    let attempts: Vec<_> = study
        .records()
        .into_iter()
        .map(|record| record.unwrap().attempt)
        .collect();
    assert_eq!(attempts, [2, 2]);
}

#[test]
fn a_report_says_how_to_make_the_study_again() {
    use std::os::unix::fs::PermissionsExt;
    let study = Study::new(QUICK);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = study
        .command(&["--set", "rank=2"])
        .env("EXPCTL_SEED", "3")
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "nothing could be printed");
    let error = text(&output.stderr);
    assert!(error.contains("cannot write to the standard output: "), "{error}");
    let report = fs::read_to_string(study.results().join("report.md")).unwrap();
    let command = "\nEXPCTL_SEED=3 expctl run spec.yaml --set rank=2 --results out\n";
    assert!(report.contains(command), "{report}");

    let again = study
        .command(&["--set", "rank=2"])
        .env("EXPCTL_SEED", "3")
        .output()
        .unwrap();
    let told = text(&again.stdout);
    assert!(told.contains("quick: 1 of 1 cell has a result in out\n"), "{told}");
    let cell = fs::read_dir(study.results().join("cells"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mode = |file: &str| fs::metadata(cell.join(file)).unwrap().permissions().mode();
    assert_eq!(mode("adapter/adapter_model.safetensors"), mode("record.json"));
    let record: Record = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();
    assert!(record.measured.unwrap().allocated_peak_by_category["host"] > 0);
}

#[test]
fn a_run_that_could_not_be_reported_does_not_begin() {
    let study = Study::new(&format!("{QUICK}report: {{ output: short.txt/report.md }}\n"));
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("cannot write `short.txt/report.md`: "), "{error}");
    assert!(!study.results().exists());

    study.write_spec(&QUICK.replace("[2, 4]", "[2]"));
    assert_eq!(study.run(&[]).status.code(), Some(0));
    study.write_spec(&QUICK.replace("name: quick", "name: other"));
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("`out` holds the study `quick`, not `other`"), "{error}");
}

#[test]
fn a_check_of_claims_is_an_exit_code() {
    let claim =
        "claims: [{claim: Rank 4 trains more, source: us, holds: \"mean('trainable_count', rank=4) > WHAT\"}]\n";
    let study = Study::new(&format!(
        "{QUICK}{}",
        claim.replace("WHAT", "mean('trainable_count', rank=2)")
    ));
    let checked = study.run(&["--check"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    assert!(
        text(&checked.stdout).contains("1 claim: 1 supported\n"),
        "{}",
        text(&checked.stdout)
    );

    study.write_spec(&format!("{QUICK}{}", claim.replace("WHAT", "1000000000")));
    let changed = study.run(&[]);
    assert_eq!(changed.status.code(), Some(0), "without --check a claim is no gate");
    assert!(
        text(&changed.stdout).contains("1 claim: 1 refuted\n"),
        "{}",
        text(&changed.stdout)
    );
    assert_eq!(study.records().len(), 2, "a changed claim is no new cell");
    let refuted = study.run(&["--check"]);
    assert_eq!(refuted.status.code(), Some(1));
    assert!(
        text(&refuted.stderr).contains("spec.yaml:5:10: refuted: Rank 4 trains more"),
        "{}",
        text(&refuted.stderr)
    );

    study.write_spec(QUICK);
    let nothing = study.run(&["--check"]);
    assert_eq!(nothing.status.code(), Some(0));
    assert!(
        text(&nothing.stderr).contains("the spec has no claims"),
        "{}",
        text(&nothing.stderr)
    );
}

#[test]
fn a_dry_run_holds_whole_cells() {
    let study =
        Study::new(&format!("{QUICK}repeats: 2\n").replace("rank: [2, 4]", "gradient_checkpointing: [{every: 2}]"));
    let output = study.run(&["--dry-run", "--format", "json"]);
    let cells: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&cells[1]["seed"], &cells[1]["cell"]["max_steps"]),
        (&1.into(), &2.into())
    );
    let table = text(&study.run(&["--dry-run"]).stdout);
    assert!(table.contains("{every: 2}"), "{table}");
}

#[test]
fn repeats_are_run_in_rounds() {
    let study = Study::new(&format!("{QUICK}repeats: 2\n"));
    assert!(study.run(&[]).status.success());
    let records = study.records();
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&index| records[index].as_ref().unwrap().started_at.clone());
    assert_eq!(order, [0, 2, 1, 3], "ranks 2 and 4 with one seed, then with the other");
}

#[test]
fn a_failing_cell_stops_nothing_and_is_tried_again() {
    let study = Study::new(BROKEN_THEN_QUICK);
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(study.statuses(), [Some(Status::Failed), Some(Status::Ok)]);
    let reason = study.records()[0].as_ref().unwrap().reason.clone().unwrap();
    assert!(
        text(&output.stdout).contains(&reason),
        "{reason}\n{}",
        text(&output.stdout)
    );
    assert!(text(&output.stdout).contains("log.txt"));
    assert!(reason.contains("short.txt: nothing to train on"), "{reason}");

    assert_eq!(study.plan(), ["run", "keep (ok)"]);
    assert_eq!(study.run(&[]).status.code(), Some(1));
    let attempts: Vec<_> = study
        .records()
        .into_iter()
        .map(|record| record.unwrap().attempt)
        .collect();
    assert_eq!(attempts, [2, 1]);
}

#[test]
fn fail_fast_stops_at_the_first_failure() {
    let study = Study::new(BROKEN_THEN_QUICK);
    let output = study.run(&["--fail-fast"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(study.statuses(), [Some(Status::Failed), None]);
    assert!(
        text(&output.stdout).contains("1 still to do"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn a_cell_past_its_timeout_is_stopped() {
    let study = Study::new(&(LONG_THEN_QUICK.to_owned() + "limits: { timeout: 2s }\n"));
    let started = Instant::now();
    assert_eq!(study.run(&[]).status.code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(study.statuses(), [Some(Status::Timeout), Some(Status::Ok)]);
    let record = study.records()[0].clone().unwrap();
    assert_eq!(record.timeout_seconds, Some(2.0));
    assert_eq!(record.reason.as_deref(), Some("stopped at the limit of 2s"));
    // another limit is no other cell
    study.write_spec(&(LONG_THEN_QUICK.to_owned() + "limits: { timeout: 1s }\n"));
    assert_eq!(study.plan(), ["run", "keep (ok)"]);
}

#[test]
fn a_killed_cell_is_recorded_and_the_others_go_on() {
    let study = Study::new(LONG_THEN_QUICK);
    let mut run = study.start();
    run.wait_for_a_long_step();
    kill_process(run.child(), Signal::KILL).unwrap();
    assert_eq!(run.wait().code(), Some(1));
    assert_eq!(study.statuses(), [Some(Status::Killed), Some(Status::Ok)]);
    let reason = study.records()[0].clone().unwrap().reason.unwrap();
    assert!(reason.contains("SIGKILL") && reason.contains("memory"), "{reason}");
}

#[test]
fn a_killed_run_takes_its_cell_along_and_can_be_resumed() {
    let study = Study::new(QUICK_THEN_LONG);
    let mut run = study.start();
    run.wait_for_a_long_step();
    let child = run.child();
    run.signal(Signal::KILL);
    run.wait();
    wait_until_gone(child);
    assert_eq!(study.statuses(), [Some(Status::Ok), None]);
    assert_eq!(study.plan(), ["keep (ok)", "run"]);
    // the lock went with its holder
    study.write_spec(&QUICK_THEN_LONG.replace("10000000", "3"));
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(study.statuses(), [Some(Status::Ok); 2]);
}

#[test]
fn a_signal_stops_the_run_cleanly() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let study = Study::new(QUICK_THEN_LONG);
        let mut run = study.start();
        run.wait_for_a_long_step();
        let child = run.child();
        run.signal(signal);
        assert_eq!(run.wait().code(), Some(code));
        wait_until_gone(child);
        assert_eq!(study.statuses(), [Some(Status::Ok), None], "nothing false is written");
        assert_eq!(study.plan(), ["keep (ok)", "run"]);
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    let study = Study::new(QUICK_THEN_LONG);
    let mut run = study.start();
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
    assert_eq!(study.statuses(), [Some(Status::Ok), None]);
}

#[test]
fn a_cell_that_hears_nothing_is_killed() {
    let study = Study::new(QUICK_THEN_LONG);
    let mut run = study.start();
    run.wait_for_a_long_step();
    let child = run.child();
    stop(child);
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
    wait_until_gone(child);
}

#[test]
fn an_interrupted_second_attempt_is_no_result() {
    let study = Study::new(&(LONG_THEN_QUICK.to_owned() + "limits: { timeout: 1s }\n"));
    assert_eq!(study.run(&[]).status.code(), Some(1));
    study.write_spec(LONG_THEN_QUICK);
    let mut run = study.start();
    run.wait_for_a_long_step();
    run.signal(Signal::INT);
    run.wait();
    assert_eq!(study.statuses(), [None, Some(Status::Ok)]);
    let output = study.run(&["--dry-run", "--format", "json"]);
    let cells: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(cells[0]["attempt"], 2, "attempts are counted over interruptions");
}

#[test]
fn a_second_run_in_the_same_folder_is_refused() {
    let study = Study::new(QUICK_THEN_LONG);
    let mut run = study.start();
    run.wait_for_a_long_step();
    let second = study.run(&[]);
    assert_eq!(second.status.code(), Some(2));
    let error = text(&second.stderr);
    assert!(
        error.contains("`out`") && error.contains(&format!("process {}", run.run.id())),
        "{error}"
    );
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
}

#[test]
fn out_of_memory_is_a_result() {
    let study = Study::new(&QUICK.replace("max_steps: 2", "max_steps: 2, device_memory: 100KiB"));
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for record in study.records().into_iter().flatten() {
        assert_eq!(record.status, Status::Oom);
        let oom = record.oom.unwrap();
        assert_eq!(oom.budget_bytes, Some(100 << 10));
        assert!(oom.allocated_bytes + oom.requested_bytes > 100 << 10);
        assert!(record.reason.unwrap().contains(&oom.phase));
    }
    assert_eq!(study.plan(), ["keep (oom)", "keep (oom)"]);
}

#[test]
fn a_record_cut_short_counts_as_missing() {
    let study = Study::new(QUICK);
    assert_eq!(study.run(&[]).status.code(), Some(0));
    let record = study.cells()[1].join("record.json");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("is cut short"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(study.statuses(), [Some(Status::Ok); 2]);
}

#[test]
fn cells_that_the_spec_no_longer_has_stay() {
    let study = Study::new(QUICK);
    assert_eq!(study.run(&[]).status.code(), Some(0));
    study.write_spec(&QUICK.replace("[2, 4]", "[2]"));
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("1 result of a cell that the spec no longer has"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read_dir(study.results().join("cells")).unwrap().count(), 2);
}

#[test]
fn results_of_other_builds_and_older_data_are_kept_and_told() {
    let data = "max_steps: 2, data: { path: text.txt }";
    let study = Study::new(&QUICK.replace("max_steps: 2", data));
    let prose = "It was a text of some length.\n\nIt went on for a while.\n\n".repeat(20);
    fs::write(study.path().join("text.txt"), &prose).unwrap();
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&study.run(&[]).stderr).contains("kept results were"));

    let record = study.cells()[0].join("record.json");
    let version = format!("\"expctl_version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let other = fs::read_to_string(&record)
        .unwrap()
        .replace(&version, "\"expctl_version\": \"0.0.9\"");
    fs::write(&record, other).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    fs::File::options()
        .append(true)
        .open(study.path().join("text.txt"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    let notes = text(&study.run(&[]).stderr);
    assert!(notes.contains("1 kept result was made by expctl 0.0.9"), "{notes}");
    assert!(
        notes.contains("2 kept results were made before `text.txt` was last changed"),
        "{notes}"
    );
}

#[test]
fn a_cell_sees_its_environment_and_says_so() {
    let environment = "max_steps: 2, env: { A_NUMBER: \"7\", GONE: null }, allocator: { backend: system, env: { MALLOC_ARENA_MAX: \"1\" } }";
    let study = Study::new(&QUICK.replace("max_steps: 2", environment));
    let output = study.command(&[]).env("GONE", "here").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let seen = study.records()[0].clone().unwrap().provenance.environment;
    assert_eq!(seen["A_NUMBER"].as_deref(), Some("7"));
    assert_eq!(seen["MALLOC_ARENA_MAX"].as_deref(), Some("1"));
    assert_eq!(seen["GONE"], None);
}

#[test]
fn every_allocator_and_instruction_set_trains_what_the_others_train() {
    let study = Study::new(
        "
name: machines
defaults: { model: tiny, max_seq_length: 64, max_steps: 4 }
sweep:
  grid: { allocator.backend: [system, retain, mimalloc] }
  include: [{ instruction_set: portable }]
",
    );
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let records = study.records().into_iter().map(Option::unwrap);
    let (records, levels): (Vec<_>, Vec<_>) = records
        .map(|record| (record.measured.unwrap(), record.provenance.instruction_set))
        .unzip();
    for other in &records[1..3] {
        assert_eq!(other.loss_last, records[0].loss_last);
        assert_eq!(other.allocated_peak_bytes, records[0].allocated_peak_bytes);
    }
    let difference = (records[3].loss_last - records[0].loss_last).abs();
    assert!(difference < 1e-2, "{difference} by other instructions");
    assert_eq!(levels[3], "portable");
    for measured in &records {
        assert!(
            measured.reserved_peak_bytes > measured.allocated_peak_bytes,
            "{measured:?}"
        );
        assert!(measured.page_faults >= measured.page_faults_per_step_median.map(|faults| faults as u64));
    }
    // the second on: what the first mapped is there
    for keeps_pages in &records[1..3] {
        let faults = keeps_pages.page_faults_per_step_median.unwrap();
        assert!(faults < 100.0, "{faults} page faults a step");
    }
    let steps = fs::read_to_string(study.cells()[0].join("steps.jsonl")).unwrap();
    let first: Value = serde_json::from_str(steps.lines().next().unwrap()).unwrap();
    assert!(first["page_faults"].as_u64().is_some(), "{first}");
}

#[test]
fn a_cell_by_hand_needs_the_environment_that_a_run_gives() {
    let study = Study::new(QUICK);
    assert_eq!(study.run(&[]).status.code(), Some(0));
    let cores = std::thread::available_parallelism().unwrap().to_string();
    let by_hand = |allocator: &str| {
        Command::new(env!("CARGO_BIN_EXE_expctl"))
            .arg("cell")
            .arg(&study.cells()[0])
            .envs([("RAYON_NUM_THREADS", &cores), ("CANDLE_NUM_THREADS", &cores)])
            .env("CELL_ALLOCATOR", allocator)
            .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
            .output()
            .unwrap()
    };
    let output = by_hand("mimalloc");
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("CELL_ALLOCATOR must be retain"), "{error}");
    assert_eq!(by_hand("retain").status.code(), Some(0));
}

#[test]
fn a_folder_that_cannot_be_made_is_the_users_mistake() {
    let study = Study::new(QUICK);
    // a file where a folder has to be: nobody may write there, root included
    fs::write(study.results(), "not a folder").unwrap();
    let output = study.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("`out`") && error.contains("--results"), "{error}");
    assert_eq!(fs::read_to_string(study.results()).unwrap(), "not a folder");
}

#[test]
fn a_disk_that_takes_no_more_loses_nothing() {
    let study = Study::new(QUICK);
    assert_eq!(study.run(&[]).status.code(), Some(0));
    let kept = study.cells()[0].join("record.json");
    let before = fs::read(&kept).unwrap();
    fs::remove_file(study.cells()[1].join("record.json")).unwrap();
    // A limit of 512 bytes a file, with the signal ignored that would come with it: writes fail as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" run spec.yaml --results out";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_expctl")])
        .current_dir(study.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let error = text(&output.stderr);
    assert!(
        error.contains("cannot write") && error.contains("the same command goes on"),
        "{error}"
    );
    assert_eq!(fs::read(&kept).unwrap(), before);
    assert_eq!(study.run(&[]).status.code(), Some(0));
    assert_eq!(study.statuses(), [Some(Status::Ok); 2]);
}

#[test]
fn progress_is_silent_where_asked() {
    let study = Study::new(QUICK);
    let output = study.run(&["--progress", "none"]);
    assert_eq!(text(&output.stderr), "");
    let table = study.run(&["--dry-run", "--format", "csv"]);
    assert!(
        text(&table.stdout).starts_with("cell_id,rank,plan,attempt\n"),
        "{}",
        text(&table.stdout)
    );
}
