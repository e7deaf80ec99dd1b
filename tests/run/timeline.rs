//! `record: {timeline: true}` and `expctl export`, as a user sees them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::project::Project;

const SPEC: &str = "
name: recorded
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 4 }
sweep: { grid: { gradient_checkpointing: [none, full] } }
";

/// Results are in `results/recorded`, where `report` and `export` look for them.
impl Project {
    /// A run that has to end well; what it printed on stderr.
    fn record(&self, arguments: &[&str]) -> String {
        let run = [&["run", "spec.yaml", "--progress", "plain"], arguments].concat();
        self.expctl(&run).exits(0).stderr
    }

    fn recorded(&self, name: &str) -> PathBuf {
        self.path("results/recorded").join(name)
    }

    /// The cells' folders, in the order of their ids.
    fn recorded_cells(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.recorded("cells")).unwrap();
        let mut cells: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        cells.sort();
        cells
    }

    /// Every cell's figures of memory, without host: names are kept there while they are recorded.
    fn figures(&self) -> Vec<Value> {
        let of = |cell: PathBuf| {
            let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();
            let measured = &record["measured"];
            let mut by_category = measured["allocated_peak_by_category"].clone();
            by_category.as_object_mut().unwrap().remove("host");
            serde_json::json!([
                measured["loss_last"],
                measured["allocated_peak_bytes"],
                measured["allocated_mean_bytes"],
                by_category
            ])
        };
        self.recorded_cells().into_iter().map(of).collect()
    }

    fn report(&self) -> String {
        self.read(self.recorded("report.md"))
    }
}

fn id(cell: &Path) -> &str {
    cell.file_name().unwrap().to_str().unwrap()
}

#[test]
fn results_without_a_timeline_stay_until_they_are_made_again() {
    let project = Project::new(SPEC);
    project.record(&[]);
    let (cells, figures) = (project.recorded_cells(), project.figures());
    assert!(!project.report().contains("Over a step"));
    assert!(!project.recorded("timeline.parquet").exists());

    let notes = project.record(&["--set", "record.timeline=true"]);
    assert!(
        notes.contains("2 kept results have no timeline; --fresh makes all again and records them"),
        "{notes}"
    );
    assert!(cells.iter().all(|cell| !cell.join("timeline.bin").exists()));

    let notes = project.record(&["--set", "record.timeline=true", "--fresh"]);
    assert!(!notes.contains("no timeline"), "{notes}");
    assert_eq!(project.recorded_cells(), cells, "a timeline is not part of a cell");
    assert_eq!(project.figures(), figures, "a timeline changes no figure");
    assert!(cells.iter().all(|cell| cell.join("timeline.bin").exists()));
    assert!(project.recorded("timeline.parquet").exists());

    let report = project.report();
    for part in ["## Over a step", "## What the backward pass keeps", "1: "] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    assert!(!report.contains("not whole"), "{report}");
    for cell in &cells {
        let chart = format!("report-step-{}.svg", id(cell));
        assert!(report.contains(&chart), "{chart}\n{report}");
        let svg = project.read(project.recorded(&chart));
        assert!(
            svg.contains("Live tensor bytes over step") && svg.contains("backward"),
            "{svg}"
        );
    }
    project.expctl(&["report", "spec.yaml", "--check"]).exits(0);

    // A new attempt takes the old one's timeline away with its record.
    project.record(&["--fresh"]);
    assert!(cells.iter().all(|cell| !cell.join("timeline.bin").exists()));
    assert!(!project.recorded("timeline.parquet").exists());
    assert!(!project.report().contains("Over a step"));
}

#[test]
fn a_timeline_can_be_exported() {
    let project = Project::new(SPEC);
    project.record(&["--set", "record={timeline: true, timeline_steps: 2}"]);
    let cell = &project.recorded_cells()[0];
    let peak = |record: &Value| record["measured"]["allocated_peak_bytes"].as_u64().unwrap();
    let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();

    let output = project
        .expctl(&["export", id(cell), "--format", "csv", "--output", "-"])
        .exits(0);
    let csv = output.stdout;
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (bytes, step) = (column("bytes"), column("step"));
    let (mut live, mut highest, mut steps) = (0i64, 0, Vec::new());
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        live += fields[bytes].parse::<i64>().unwrap();
        if !fields[step].is_empty() {
            highest = highest.max(live);
            steps.push(fields[step].to_owned());
        }
    }
    steps.dedup();
    assert_eq!(steps, ["1", "2"]);
    assert_eq!(highest as u64, peak(&record));

    project.expctl(&["export", id(cell), "--format", "chrome"]).exits(0);
    let trace: Value = serde_json::from_slice(&fs::read(cell.join("timeline.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let slices = |name: &str| {
        events
            .iter()
            .filter(|event| event["ph"] == "X" && event["name"] == name)
            .count()
    };
    assert_eq!([slices("step 1"), slices("step 2"), slices("step 3")], [1, 1, 0]);
    assert!(slices("model.layers.1.self_attn") >= 4);
    let total = |event: &Value| {
        event["args"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_u64)
            .sum::<u64>()
    };
    let counters = events.iter().filter(|event| event["ph"] == "C");
    assert_eq!(counters.map(total).max(), Some(peak(&record)));

    let arguments = ["export", id(cell), "--format", "pytorch", "--output", "snapshot.pickle"];
    project.expctl(&arguments).exits(0);
    let snapshot = fs::read(project.path("snapshot.pickle")).unwrap();
    assert!(snapshot.starts_with(b"\x80\x02}") && snapshot.ends_with(b"."));
}

#[test]
fn what_cannot_be_exported_says_why() {
    let project = Project::new(SPEC);
    project.record(&[]);
    let cell = &project.recorded_cells()[0];
    let output = project.expctl(&["export", id(cell), "--format", "csv"]);
    let mistake = output.exits(2);
    mistake
        .stderr_has("has no timeline")
        .stderr_has("--fresh --set record.timeline=true");
    fs::write(cell.join("timeline.bin"), "something else").unwrap();
    project
        .expctl(&["export", id(cell), "--format", "csv"])
        .exits(2)
        .stderr_has("its SHA-256 does not hold");
    project
        .expctl(&["report", "spec.yaml"])
        .exits(0)
        .stderr_has("its SHA-256 does not hold")
        .stderr_has("the report is without it");
}

#[test]
fn what_cannot_be_recorded_is_an_error_at_its_place() {
    let project = Project::new(SPEC);
    for (setting, expected) in [
        ("record.timeline_steps=0", "record.timeline_steps: must be at least 1"),
        ("record.timelines=true", "did you mean `record.timeline`?"),
        ("record.timeline=3", "record.timeline"),
    ] {
        let mistake = project.expctl(&["run", "spec.yaml", "--dry-run", "--set", setting]);
        mistake.exits(2).stderr_has(expected);
    }
    let spec = format!("{SPEC}record: {{ timeline: true }}\n").replace("model: tiny", "model: tiny, device: 'cuda:0'");
    project.write("spec.yaml", spec);
    let mistake = project.expctl(&["run", "spec.yaml", "--dry-run"]).exits(2);
    mistake.stderr_has("a timeline is recorded by our trainer on the cpu only so far");
}
