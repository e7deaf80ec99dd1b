//! `record: {timeline: true}` and `expctl export`, as a user sees them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const SPEC: &str = "
name: recorded
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 4 }
sweep: { grid: { gradient_checkpointing: [none, full] } }
";

struct Study {
    folder: TempDir,
}

impl Study {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("spec.yaml"), SPEC).unwrap();
        Self { folder }
    }

    fn expctl(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_expctl"))
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .unwrap()
    }

    /// A run that has to end well; what it said on stderr.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.expctl(&[&["run", "spec.yaml", "--progress", "plain"], arguments].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        told
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("results/recorded").join(name)
    }

    /// The cells' folders, in the order of their ids.
    fn cells(&self) -> Vec<PathBuf> {
        let mut cells: Vec<PathBuf> = fs::read_dir(self.path("cells"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        cells.sort();
        cells
    }

    /// What every cell measured of memory, without host: names are kept there while they are recorded.
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
        self.cells().into_iter().map(of).collect()
    }

    fn report(&self) -> String {
        fs::read_to_string(self.path("report.md")).unwrap()
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn id(cell: &Path) -> &str {
    cell.file_name().unwrap().to_str().unwrap()
}

#[test]
fn results_without_a_timeline_stay_until_they_are_made_again() {
    let study = Study::new();
    study.run(&[]);
    let (cells, figures) = (study.cells(), study.figures());
    assert!(!study.report().contains("Over a step"));
    assert!(!study.path("timeline.parquet").exists());

    let told = study.run(&["--set", "record.timeline=true"]);
    assert!(
        told.contains("2 kept results have no timeline; --fresh makes all again and records them"),
        "{told}"
    );
    assert!(cells.iter().all(|cell| !cell.join("timeline.bin").exists()));

    let told = study.run(&["--set", "record.timeline=true", "--fresh"]);
    assert!(!told.contains("no timeline"), "{told}");
    assert_eq!(study.cells(), cells, "a timeline is no part of a cell");
    assert_eq!(study.figures(), figures, "a timeline changes no figure");
    assert!(cells.iter().all(|cell| cell.join("timeline.bin").exists()));
    assert!(study.path("timeline.parquet").exists());

    let report = study.report();
    for part in ["## Over a step", "## What the backward pass keeps", "1: "] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    assert!(!report.contains("not whole"), "{report}");
    for cell in &cells {
        let chart = format!("report-step-{}.svg", id(cell));
        assert!(report.contains(&chart), "{chart}\n{report}");
        let svg = fs::read_to_string(study.path(&chart)).unwrap();
        assert!(
            svg.contains("Live tensor bytes over step") && svg.contains("backward"),
            "{svg}"
        );
    }
    let checked = study.expctl(&["report", "spec.yaml", "--check"]);
    assert!(checked.status.success(), "{}", text(&checked));

    // A new attempt takes the old one's timeline away with its record.
    study.run(&["--fresh"]);
    assert!(cells.iter().all(|cell| !cell.join("timeline.bin").exists()));
    assert!(!study.path("timeline.parquet").exists());
    assert!(!study.report().contains("Over a step"));
}

#[test]
fn a_timeline_can_be_exported() {
    let study = Study::new();
    study.run(&["--set", "record={timeline: true, timeline_steps: 2}"]);
    let cell = &study.cells()[0];
    let peak = |record: &Value| record["measured"]["allocated_peak_bytes"].as_u64().unwrap();
    let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();

    let output = study.expctl(&["export", id(cell), "--format", "csv", "--output", "-"]);
    assert!(output.status.success(), "{}", text(&output));
    let csv = String::from_utf8(output.stdout).unwrap();
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

    let output = study.expctl(&["export", id(cell), "--format", "chrome"]);
    assert!(output.status.success(), "{}", text(&output));
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

    let file = study.folder.path().join("snapshot.pickle");
    let arguments = ["export", id(cell), "--format", "pytorch", "--output", "snapshot.pickle"];
    let output = study.expctl(&arguments);
    assert!(output.status.success(), "{}", text(&output));
    let snapshot = fs::read(file).unwrap();
    assert!(snapshot.starts_with(b"\x80\x02}") && snapshot.ends_with(b"."));
}

#[test]
fn what_cannot_be_exported_says_why() {
    let study = Study::new();
    study.run(&[]);
    let cell = &study.cells()[0];
    let output = study.expctl(&["export", id(cell), "--format", "csv"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("has no timeline") && said.contains("--fresh --set record.timeline=true"),
        "{said}"
    );
    fs::write(cell.join("timeline.bin"), "something else").unwrap();
    let output = study.expctl(&["export", id(cell), "--format", "csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("is not a timeline"), "{}", text(&output));
    let output = study.expctl(&["report", "spec.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("is not a timeline"), "{}", text(&output));
}

#[test]
fn what_cannot_be_recorded_is_an_error_at_its_place() {
    let study = Study::new();
    for (setting, expected) in [
        ("record.timeline_steps=0", "record.timeline_steps: must be at least 1"),
        ("record.timelines=true", "did you mean `record.timeline`?"),
        ("record.timeline=3", "record.timeline"),
    ] {
        let output = study.expctl(&["run", "spec.yaml", "--dry-run", "--set", setting]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let spec = format!("{SPEC}record: {{ timeline: true }}\n").replace("model: tiny", "model: tiny, device: 'cuda:0'");
    fs::write(study.folder.path().join("spec.yaml"), spec).unwrap();
    let output = study.expctl(&["run", "spec.yaml", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("a timeline is recorded on the cpu only so far"),
        "{}",
        text(&output)
    );
}
