//! Reports over hand-made records: what the Markdown, the frame and the charts say, and that they always say the same.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use expctl::report::{self, About, Rendered, ReportError, Template};
use expctl::results::collect::collect;
use expctl::results::record::{Machine, Measured, Oom, Profile, Provenance, Record, Status, Step};
use expctl::results::store::{StepLog, StudyDir, write_record};
use expctl::spec::cell::{Cell, Dtype, Measure, Task};
use expctl::spec::{self, Overrides, Study};
use polars_io::SerReader;
use polars_io::parquet::read::ParquetReader;
use predicates::prelude::*;
use tempfile::TempDir;

mod claims;
mod compare;
mod published;

const MIB: u64 = 1 << 20;

fn provenance() -> Provenance {
    Provenance {
        expctl_version: "0.1.0".into(),
        git_commit: Some("3f1c2d4e5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d".into()),
        device: "cpu".into(),
        instruction_set: "avx512".into(),
        threads: 2,
        machine: Machine {
            cpu: "An Example CPU @ 2.00GHz".into(),
            cores: 2,
            memory_bytes: Some(8 << 30),
            os: "Linux 6.1".into(),
        },
        environment: BTreeMap::new(),
        data_sha256: Some("ab".repeat(32)),
    }
}

fn record(cell_id: &str, status: Status) -> Record {
    Record {
        cell_id: cell_id.into(),
        status,
        reason: None,
        attempt: 1,
        started_at: "2026-03-01T12:00:00Z".into(),
        wall_seconds: 12.5,
        measured: None,
        oom: None,
        timeout_seconds: None,
        provenance: provenance(),
    }
}

/// Figures that follow from the configuration, so that the tables can be checked by eye.
fn measured(cell: &Cell) -> Measured {
    let rank = cell.rank as u64;
    let parameter = if cell.dtype == Dtype::Int4 { 90 * MIB } else { 257 * MIB };
    let adapter = rank * MIB * 5 / 4;
    let activation = 180 * MIB + rank * MIB / 2 + cell.seed * MIB / 2;
    // A program that keeps the gradients of every micro-batch, or one that adds them up.
    let keeps_all = cell.adam_epsilon == 1e-6;
    let gradients = if keeps_all {
        cell.gradient_accumulation_steps as u64
    } else {
        1
    };
    let profile = (cell.measure == Measure::Profile).then(|| Profile {
        parameter_bytes: parameter,
        adapter_bytes: Some(adapter),
        optimizer_state_bytes: 2 * adapter,
        activation_bytes: activation,
        gradient_bytes: adapter,
        total_bytes: parameter + 4 * adapter + activation,
        allocated_bytes: parameter + 4 * adapter + MIB,
        peak_bytes: parameter + 4 * adapter + activation + 8192 + 12 * MIB,
    });
    let by_category = [
        ("parameter", parameter),
        ("adapter", adapter),
        ("optimizer_state", 2 * adapter),
        ("gradient", gradients * adapter),
        ("activation", activation),
        ("input", 8192),
        ("temporary", 12 * MIB),
    ];
    let allocated = by_category.iter().map(|(_, bytes)| bytes).sum();
    let in_phase = [
        ("load", parameter + adapter),
        ("forward", allocated - 2 * MIB),
        ("backward", allocated),
        ("optimizer", parameter + 4 * adapter),
        ("idle", parameter + 3 * adapter),
    ];
    let speed = if cell.dtype == Dtype::Int4 { 1700.0 } else { 2100.0 } - 4.0 * rank as f64 + cell.seed as f64 * 13.0;
    Measured {
        steps: 3,
        loss_first: 10.8,
        loss_last: 10.5 - 0.01 * rank as f64 + 0.002 * cell.seed as f64,
        loss_eval: Some(10.6 - 0.008 * rank as f64 + 0.002 * cell.seed as f64),
        accuracy_eval: (cell.task == Task::SequenceClassification).then_some(0.875 + rank as f64 / 1024.0),
        step_seconds_median: 512.0 / speed,
        tokens_per_second: speed,
        train_seconds: 3.0 * 512.0 / speed,
        load_seconds: 0.75,
        tokens: 1536,
        allocated_peak_bytes: Some(allocated),
        allocated_mean_bytes: Some(parameter + 4 * adapter),
        reserved_peak_bytes: Some(allocated + 30 * MIB),
        process_peak_bytes: Some(allocated + 40 * MIB),
        process_peak_total_bytes: Some(allocated + 60 * MIB),
        allocated_peak_phase: Some("backward".into()),
        allocated_peak_by_category: by_category
            .into_iter()
            .chain([("host", 3 * MIB)])
            .map(|(name, bytes)| (name.to_string(), bytes))
            .collect(),
        allocated_peak_in_phase: in_phase.map(|(name, bytes)| (name.to_string(), bytes)).into(),
        parameter_count: 134_515_008,
        trainable_count: rank * 305_280,
        adapter_file_bytes: (rank > 0).then_some(rank * 4 * 305_280 + 40_000),
        profile,
        page_faults: Some(1234),
        page_faults_per_step_median: Some(411.0),
    }
}

/// Two dtypes by four ranks, two seeds each; one configuration fails in every way that there is.
const SPEC: &str = "\
name: rank_sweep
description: What does the LoRA rank cost in memory and time?
defaults: { batch_size: 4, max_steps: 3, device_memory: 1GiB, data: sample, eval_fraction: 0.1 }
sweep:
  grid: { dtype: [bfloat16, int4], rank: [4, 16, 64, 256] }
repeats: 2
report: { output: results/rank_sweep.md }
";

fn outcome(cell: &Cell) -> Option<Record> {
    let id = cell.id();
    match (cell.dtype, cell.rank, cell.seed) {
        (Dtype::Bfloat16, 256, _) => Some(Record {
            oom: Some(Oom {
                phase: "backward".into(),
                category: "optimizer_state".into(),
                requested_bytes: 48 * MIB,
                allocated_bytes: 1000 * MIB,
                budget_bytes: Some(1 << 30),
            }),
            ..record(&id, Status::Oom)
        }),
        (Dtype::Int4, 256, 0) => Some(Record {
            reason: Some("the gradient is not finite: `q_proj` of layer 3 | step 2".into()),
            attempt: 2,
            ..record(&id, Status::Failed)
        }),
        (Dtype::Int4, 256, _) => Some(Record {
            timeout_seconds: Some(600.0),
            started_at: "2026-03-01T12:34:56Z".into(),
            ..record(&id, Status::Timeout)
        }),
        (Dtype::Int4, 64, 1) => None,
        _ => Some(Record {
            measured: Some(measured(cell)),
            ..record(&id, Status::Ok)
        }),
    }
}

fn step(step: usize) -> Step {
    Step {
        step,
        loss: 10.8 - 0.1 * step as f64,
        gradient_norm: 1.25,
        learning_rate: 1e-4,
        tokens: 512,
        seconds: 0.25,
        allocated_bytes: Some(300 * MIB),
        allocated_peak_bytes: Some(471 * MIB),
        reserved_bytes: Some(500 * MIB),
        process_bytes: Some(511 * MIB),
        system_available_bytes: None,
        page_faults: Some(411),
    }
}

/// A working directory with `experiments/NAME.yaml` and `results/NAME/`, as a run leaves them.
struct Place {
    root: TempDir,
    dir: StudyDir,
    study: Study,
}

impl Place {
    fn new(text: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let name = text.lines().next().unwrap().strip_prefix("name: ").unwrap();
        let spec = root.path().join(format!("experiments/{name}.yaml"));
        fs::create_dir_all(spec.parent().unwrap()).unwrap();
        fs::write(&spec, text).unwrap();
        let mut study = spec::load(&spec, &Overrides::default()).unwrap();
        study.invocation.spec = format!("experiments/{name}.yaml");
        let dir = StudyDir::new(root.path().join("results").join(name));
        for planned in &study.cells {
            let cell = dir.cell(&planned.id);
            fs::create_dir_all(cell.path()).unwrap();
            fs::write(cell.cell_yaml(), planned.cell.to_yaml()).unwrap();
            if let Some(record) = outcome(&planned.cell) {
                write_record(&cell, &record).unwrap();
                let mut log = StepLog::create(&cell.steps()).unwrap();
                for n in 1..=3 {
                    log.append(&step(n)).unwrap();
                }
            }
        }
        study.write(dir.path()).unwrap();
        Self { root, dir, study }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn render(&self, template: &Template) -> Result<Rendered, ReportError> {
        let frame = collect(&self.dir, &self.study, false).unwrap().frame().unwrap();
        report::render(&About::new(&self.study), &frame, template, "rank_sweep")
    }

    /// What is wrong with a template of this text.
    fn error(&self, text: &str) -> String {
        let path = self.path("mine/own.md.j2");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let error = self.render(&Template::File(path)).unwrap_err().to_string();
        error.replace(&self.root.path().display().to_string(), "ROOT")
    }

    fn expctl(&self, args: &[&str]) -> assert_cmd::assert::Assert {
        let mut command = Command::cargo_bin("expctl").unwrap();
        command.current_dir(self.root.path()).args(args).assert()
    }
}

#[test]
fn comparison() {
    let place = Place::new(SPEC);
    let rendered = place.render(&Template::named("comparison")).unwrap();
    insta::assert_snapshot!(rendered.markdown);
    let files: Vec<&String> = rendered.files.keys().collect();
    assert_eq!(files, ["rank_sweep-categories.svg", "rank_sweep-growth.svg"]);
}

#[test]
fn method_comparison() {
    let place = Place::new(SPEC);
    let rendered = place.render(&Template::named("method_comparison")).unwrap();
    insta::assert_snapshot!(rendered.markdown);
    assert_eq!(
        rendered.files.keys().collect::<Vec<_>>(),
        ["rank_sweep-memory-loss.svg"]
    );
}

#[test]
fn what_classifies_has_its_accuracy() {
    let place = Place::new(
        "name: labels\ndefaults: { task: sequence_classification, model: distilbert-base, dtype: bfloat16, eval_fraction: 0.1 }\n\
         sweep: { grid: { rank: [0, 32] } }\n",
    );
    for (template, head) in [
        ("comparison", "| Held-out accuracy |"),
        ("method_comparison", "| Eval accuracy |"),
    ] {
        let markdown = place.render(&Template::named(template)).unwrap().markdown;
        let table: Vec<&str> = markdown
            .lines()
            .skip_while(|line| !line.contains(&head[1..head.len() - 1]))
            .collect();
        assert!(
            table[2].contains(" 87.5% |") && table[3].contains(" 90.6% |"),
            "{markdown}"
        );
        for row in &table[1..4] {
            assert_eq!(row.matches('|').count(), table[0].matches('|').count(), "{markdown}");
        }
    }
    let markdown = Place::new(SPEC)
        .render(&Template::named("comparison"))
        .unwrap()
        .markdown;
    assert!(!markdown.contains("accuracy"), "{markdown}");
}

#[test]
fn one_cell_needs_no_axes_and_no_comparison() {
    let place = Place::new("name: one\ndefaults: { rank: 16, max_steps: 3 }\n");
    let rendered = place.render(&Template::named("comparison")).unwrap();
    insta::assert_snapshot!(rendered.markdown);
}

/// A profile, and trainings with and without accumulation.
const TWO_WAYS: &str = "\
name: two_ways
defaults: { batch_size: 4 }
sweep:
  zip: { measure: [profile, epoch, epoch], gradient_accumulation_steps: [1, 1, 4], max_steps: [null, 3, 3] }
";

#[test]
fn profiler_vs_epoch() {
    let rendered = Place::new(TWO_WAYS)
        .render(&Template::named("profiler_vs_epoch"))
        .unwrap();
    insta::assert_snapshot!(rendered.markdown);
    assert_eq!(rendered.files.keys().collect::<Vec<_>>(), ["rank_sweep-categories.svg"]);
}

/// With an `adam_epsilon` of 1e-6 the made-up training does what the sentence says.
#[test]
fn what_is_said_of_accumulation_follows_from_the_numbers() {
    let said = |text: &str| {
        let markdown = Place::new(text)
            .render(&Template::named("profiler_vs_epoch"))
            .unwrap()
            .markdown;
        let lines = markdown.lines().filter(|line| line.contains("\": **"));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    let starts = |text: &str, starts: [&str; 2]| {
        let said = said(text);
        assert_eq!(said.len(), 2, "{said:?}");
        for (said, start) in said.iter().zip(starts) {
            assert!(said.starts_with(start), "{said}");
        }
    };
    starts(
        TWO_WAYS,
        [
            "- \"Accumulation keeps the gradients of 4 micro-batches alive\": **false**. At the epoch's peak gradients take \
             20.00 MiB, which is 1.00 × what one micro-batch leaves (20.00 MiB); 4 would take 80.00 MiB. Micro-batches are \
             added up",
            "- \"Accumulation raises the peak\": **false**: 0 MiB, 1.00 ×.",
        ],
    );
    starts(
        &TWO_WAYS.replace("batch_size: 4", "batch_size: 4, adam_epsilon: 1e-6"),
        [
            "- \"Accumulation keeps the gradients of 4 micro-batches alive\": **true**. At the epoch's peak gradients take \
             80.00 MiB, which is 4.00 × what one micro-batch leaves (20.00 MiB); 4 would take 80.00 MiB.",
            "- \"Accumulation raises the peak\": **true**: +60.00 MiB,",
        ],
    );
}

#[test]
fn the_parts_between_two_peaks_add_up() {
    let place = Place::new(TWO_WAYS);
    let template = "{% for pair in profiles + accumulations %}{{ pair.parts | map(attribute='rise') | sum }} \
                    {{ pair.to.allocated_peak_bytes - pair.from.allocated_peak_bytes }}\n{% endfor %}";
    let path = place.path("sums.md.j2");
    fs::write(&path, template).unwrap();
    let markdown = place.render(&Template::File(path)).unwrap().markdown;
    assert_eq!(
        markdown.lines().count(),
        3,
        "two trainings beside the profile, and beside each other: {markdown}"
    );
    for line in markdown.lines() {
        let (parts, whole) = line.split_once(' ').unwrap();
        assert_eq!(parts.parse::<f64>().unwrap(), whole.parse::<f64>().unwrap());
    }
}

#[test]
fn a_study_that_never_ran_has_a_report() {
    let place = Place::new("name: none\ndefaults: { dtype: int4, rank: 64, seed: 1 }\n");
    for template in ["comparison", "method_comparison", "profiler_vs_epoch", "claims"] {
        let rendered = place.render(&Template::named(template)).unwrap();
        assert!(rendered.markdown.contains("no record yet"), "{}", rendered.markdown);
        assert!(rendered.files.is_empty());
    }
}

#[test]
fn the_spec_names_the_baseline() {
    let text = SPEC.replace("report: {", "report: { baseline: { dtype: int4, rank: 16 },");
    let markdown = Place::new(&text)
        .render(&Template::named("comparison"))
        .unwrap()
        .markdown;
    assert!(markdown.contains("Base: int4 · 16 ("), "{markdown}");
}

#[test]
fn axes_of_every_kind_are_read_as_written() {
    let place = Place::new(
        "name: kinds\ndefaults: { allocator: { backend: system } }\nsweep:\n  grid:\n    gradient_checkpointing: [none, {every: 2}]\n    allocator.env.MALLOC_ARENA_MAX: \
         [null, '1']\n  include:\n    - { learning_rate: 1e-3, data: { synthetic: { lengths: [16, 32] } } }\n",
    );
    let output = place
        .expctl(&["list", "results/kinds"])
        .success()
        .get_output()
        .stdout
        .clone();
    insta::assert_snapshot!(String::from_utf8(output).unwrap(), @r"
    cell_id       status  gradient_checkpointing  allocator.env.MALLOC_ARENA_MAX  learning_rate  data                                             seed  peak allocated  tokens/s
    6aafd1dee35e  ok      none                    unset                           1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    79178eb252e3  ok      none                    1                               1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    759f7144b063  ok      {every: 2}              unset                           1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    f9d42d66a77c  ok      {every: 2}              1                               1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    b673bbc2638f  ok      none                    unset                           1e-3           {synthetic: {lengths: [16, 32], samples: 1024}}     0  370.0 MiB       1,636
    ");
    let rendered = place.render(&Template::named("comparison")).unwrap();
    let chart = &rendered.files["rank_sweep-categories.svg"];
    assert!(chart.contains("{every: 2} · unset"), "{chart}");
    let (_, allocator) = rendered.markdown.split_once("## What the allocator did").unwrap();
    let row = allocator.lines().find(|line| line.contains("unset")).unwrap();
    assert!(row.contains(" 1,234 |                411 |"), "{row}");
}

#[test]
fn charts_say_what_their_points_are() {
    let place = Place::new(SPEC);
    let template = place.path("own.md.j2");
    fs::write(&template, r#"{{ chart("growth") }} {{ chart("memory_speed") }}"#).unwrap();
    let rendered = place.render(&Template::File(template)).unwrap();
    let series = [
        "dtype bfloat16",
        "dtype int4",
        "Speed (tokens/s)",
        "Peak allocated (MiB)",
    ];
    for (name, texts) in [
        ("rank_sweep-memory-speed.svg", &["rank 4", "rank 64"][..]),
        ("rank_sweep-growth.svg", &["Memory and speed over rank"]),
    ] {
        let chart = &rendered.files[name];
        for text in texts.iter().chain(&series) {
            assert!(chart.contains(text), "{name}: {text}");
        }
        assert!(chart.contains("prefers-color-scheme: dark"));
    }
}

#[test]
fn rank_0_is_no_place_on_the_axis_of_ranks() {
    let grid = "dtype: [bfloat16, float32], rank: [0, 4, 16, 64]";
    let place = Place::new(&SPEC.replace("dtype: [bfloat16, int4], rank: [4, 16, 64, 256]", grid));
    let template = place.path("own.md.j2");
    fs::write(&template, r#"{{ chart("growth") }} {{ chart("memory_speed") }}"#).unwrap();
    let rendered = place.render(&Template::File(template)).unwrap();
    assert!(
        rendered.files.keys().eq(["rank_sweep-memory-speed.svg"]),
        "{:?}",
        rendered.files.keys()
    );
}

#[test]
fn the_frame_holds_what_the_records_say() {
    let place = Place::new(SPEC);
    place.expctl(&["report", "experiments/rank_sweep.yaml"]).success();
    insta::assert_snapshot!(fs::read_to_string(place.dir.cells_csv()).unwrap());
    let frame = collect(&place.dir, &place.study, false).unwrap().frame().unwrap();
    let stored = ParquetReader::new(File::open(place.dir.cells_parquet()).unwrap())
        .finish()
        .unwrap();
    assert!(stored.equals_missing(&frame));
}

#[test]
fn equal_records_give_equal_bytes() {
    let files = |place: &Place| -> BTreeMap<PathBuf, Vec<u8>> {
        place.expctl(&["report", "results/rank_sweep"]).success();
        let results = [place.path("results"), place.dir.path().to_path_buf()];
        let entries = results.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let name = |path: &Path| path.strip_prefix(place.root.path()).unwrap().to_path_buf();
        paths.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
    };
    let (one, other) = (files(&Place::new(SPEC)), files(&Place::new(SPEC)));
    assert_eq!(
        one.len(),
        6,
        "study.yaml, two frames, one report and two charts: {:?}",
        one.keys()
    );
    assert!(one == other);
}

#[test]
fn only_what_changed_is_written() {
    let place = Place::new(SPEC);
    let report = ["report", "results/rank_sweep"];
    place
        .expctl(&report)
        .success()
        .stdout(predicate::str::contains("wrote results/rank_sweep.md\n"));
    place
        .expctl(&report)
        .success()
        .stdout("results/rank_sweep.md is up to date\n");
    fs::write(place.path("results/rank_sweep.md"), "something else").unwrap();
    place.expctl(&report).success().stdout("wrote results/rank_sweep.md\n");
}

#[test]
fn check_says_what_is_stale() {
    let place = Place::new(SPEC);
    let check = ["report", "experiments/rank_sweep.yaml", "--check"];
    place
        .expctl(&check)
        .code(1)
        .stderr(predicate::str::contains("`results/rank_sweep.md` is not there"));
    assert!(!place.path("results/rank_sweep.md").exists(), "a check writes nothing");
    place.expctl(&["report", "results/rank_sweep"]).success();
    place.expctl(&check).success();

    let path = place.path("results/rank_sweep.md");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("What does the LoRA rank cost", "What does it cost")).unwrap();
    let expected = "`results/rank_sweep.md` is stale at line 3:\n  \
         is:       What does it cost in memory and time?\n  \
         would be: What does the LoRA rank cost in memory and time?\n";
    place.expctl(&check).code(1).stderr(expected);
}

#[test]
fn the_spec_says_how_results_are_shown() {
    let place = Place::new(SPEC);
    let spec = "experiments/rank_sweep.yaml";
    place.expctl(&["report", spec]).success().stderr("");
    let reworded = SPEC
        .replace("What does", "How much does")
        .replace("rank_sweep.md", "new.md");
    fs::write(place.path(spec), reworded).unwrap();
    place.expctl(&["report", spec, "--check"]).code(1);
    place.expctl(&["report", spec]).success();
    let markdown = fs::read_to_string(place.path("results/new.md")).unwrap();
    assert!(markdown.contains("How much does the LoRA rank cost"), "{markdown}");

    fs::write(place.path(spec), SPEC.replace("[4, 16, 64, 256]", "[4, 16, 64, 128]")).unwrap();
    place.expctl(&["report", spec]).success();
    place
        .expctl(&["report", spec, "--check"])
        .code(1)
        .stderr(predicate::str::contains("4 cells new, 4 cells gone"));
}

#[test]
fn a_report_takes_the_place_of_nothing_else() {
    let place = Place::new(SPEC);
    let record = place.dir.cell(&place.study.cells[0].id).record();
    let other = [
        "experiments/rank_sweep.yaml",
        "results/rank_sweep/study.yaml",
        "results/rank_sweep/no/../cells.csv",
    ];
    for output in other.into_iter().map(PathBuf::from).chain([record]) {
        let before = fs::read(place.path("").join(&output)).ok();
        place
            .expctl(&[
                "report",
                "results/rank_sweep",
                "--output",
                &output.display().to_string(),
            ])
            .code(2)
            .stderr(predicate::str::contains("is a part of the study"));
        assert_eq!(fs::read(place.path("").join(&output)).ok(), before);
    }
}

#[test]
fn an_error_in_a_template_shows_its_line() {
    let place = Place::new(SPEC);
    insta::assert_snapshot!(place.error("# {{ study.name }}\n{% for cell in cells %}\n{{ cell.peak }}\n{% endfor %}\n"), @r#"
    undefined value: `cell.peak` is undefined
     --> ROOT/mine/own.md.j2:3:4
      |
    3 | {{ cell.peak }}
      |    ^^^^^^^^^
    "#);
    insta::assert_snapshot!(place.error("# {{ study.name }}\n{% for cell in cells %}\n"), @r#"
    syntax error: unexpected end of input, expected end of block
     --> ROOT/mine/own.md.j2:2:22
      |
    2 | {% for cell in cells %}
      |                      ^^
    "#);
    insta::assert_snapshot!(place.error("{{ cells[0].allocated_peak_bytes | bytes(\"MB\") }}"), @r#"
    invalid operation: unknown unit `MB`; the units are B, KiB, MiB and GiB
     --> ROOT/mine/own.md.j2:1:36
      |
    1 | {{ cells[0].allocated_peak_bytes | bytes("MB") }}
      |                                    ^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(place.error("{{ chart('speed') }}"), @r#"
    invalid operation: unknown chart `speed`; the charts are categories, growth, memory_loss, memory_speed
     --> ROOT/mine/own.md.j2:1:4
      |
    1 | {{ chart('speed') }}
      |    ^^^^^^^^^^^^^^
    "#);

    let own = place.path("mine/own.md.j2").display().to_string();
    place
        .expctl(&["report", "results/rank_sweep", "--template", &own])
        .code(2)
        .stderr(predicate::str::contains("own.md.j2:1"));
}

#[test]
fn a_run_with_a_broken_template_does_not_begin() {
    let place = Place::new("name: broken\ndefaults: { model: tiny }\nreport: { template: ./none.md.j2 }\n");
    place
        .expctl(&["run", "experiments/broken.yaml"])
        .code(2)
        .stderr(predicate::str::contains("cannot read the template `"));
    assert!(!place.dir.lock().exists());
}

#[test]
fn an_error_in_an_included_file_shows_that_file() {
    let place = Place::new(SPEC);
    fs::create_dir_all(place.path("mine/parts")).unwrap();
    fs::write(place.path("mine/parts/head.md"), "\n{{ nothing }}\n").unwrap();
    insta::assert_snapshot!(place.error("{% include 'parts/head.md' %}"), @r#"
    undefined value: `nothing` is undefined
     --> ROOT/mine/parts/head.md:2:4
      |
    2 | {{ nothing }}
      |    ^^^^^^^
    "#);
}

#[test]
fn a_template_sees_its_own_folder_only() {
    let place = Place::new(SPEC);
    fs::write(place.path("secret.txt"), "secret").unwrap();
    fs::create_dir_all(place.path("mine")).unwrap();
    std::os::unix::fs::symlink(place.path("secret.txt"), place.path("mine/link.txt")).unwrap();
    for include in [
        "../secret.txt",
        "/etc/passwd",
        "link.txt",
        "./own.md.j2",
        "parts/../../secret.txt",
    ] {
        let error = place.error(&format!("{{% include '{include}' %}}"));
        assert!(error.contains("own.md.j2:1"), "{include}: {error}");
    }
    place
        .expctl(&["report", "results/rank_sweep", "--template", "none.md.j2"])
        .code(2)
        .stderr(predicate::str::contains(
            "cannot read the template `none.md.j2`: No such file",
        ));
}

#[test]
fn a_template_of_ones_own_can_use_the_parts() {
    let place = Place::new(SPEC);
    let own = "{% include 'parts/setup.md.j2' %}\n|a|\n|-|\n{% for g in groups %}\n|{{ g.label }}|\n{% endfor %}\n";
    fs::write(place.path("experiments/own.md.j2"), own).unwrap();
    let spec = SPEC.replace("report: {", "report: { template: ./own.md.j2,");
    fs::write(place.path("experiments/rank_sweep.yaml"), spec).unwrap();
    let study = spec::load(&place.path("experiments/rank_sweep.yaml"), &Overrides::default()).unwrap();
    study.write(place.dir.path()).unwrap();
    place.expctl(&["report", "experiments/rank_sweep.yaml"]).success();
    let markdown = fs::read_to_string(place.path("results/rank_sweep.md")).unwrap();
    assert!(
        markdown.contains("**Machine:**") && markdown.contains("| bfloat16 · 4   |"),
        "{markdown}"
    );
}

#[test]
fn cells_that_left_the_spec_are_rows_on_request() {
    let place = Place::new(SPEC);
    let smaller = SPEC.replace("rank: [4, 16, 64, 256]", "rank: [4, 16]");
    fs::write(place.path("experiments/rank_sweep.yaml"), smaller).unwrap();
    let spec = place.path("experiments/rank_sweep.yaml");
    spec::load(&spec, &Overrides::default())
        .unwrap()
        .write(place.dir.path())
        .unwrap();
    let rows = || fs::read_to_string(place.dir.cells_csv()).unwrap().lines().count() - 1;

    let note = "7 records of cells that are no longer in the study are left out; `report --all` shows them\n";
    place.expctl(&["report", "results/rank_sweep"]).success().stderr(note);
    assert_eq!(rows(), 8);
    place
        .expctl(&["report", "results/rank_sweep", "--all"])
        .success()
        .stderr("");
    assert_eq!(rows(), 15);
}

#[test]
fn a_record_cut_short_is_a_warning_and_a_cell_that_did_not_run() {
    let place = Place::new(SPEC);
    let path = place.dir.cell(&place.study.cells[0].id).record();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    place
        .expctl(&["report", "results/rank_sweep"])
        .success()
        .stderr(predicate::str::contains("is cut short; `expctl run` makes it again"));
    let markdown = fs::read_to_string(place.path("results/rank_sweep.md")).unwrap();
    assert!(markdown.contains("1 not run, 1 ok"), "{markdown}");
}

#[test]
fn list_shows_cells() {
    let place = Place::new(SPEC);
    let text = |args: &[&str]| String::from_utf8(place.expctl(args).success().get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!("list", text(&["list", "results/rank_sweep"]));
    let csv = text(&["list", "--format", "csv"]);
    assert!(
        csv.starts_with("cell_id,status,dtype,rank,seed,allocated_peak_bytes,tokens_per_second\n"),
        "{csv}"
    );
    let json: serde_json::Value = serde_json::from_str(&text(&["list", "--format", "json"])).unwrap();
    assert_eq!(json[0]["rank"], 4);
    assert_eq!(json[0]["allocated_peak_bytes"], 493_887_488_u64);

    fs::create_dir(place.path("results/copy")).unwrap();
    fs::copy(place.dir.study_yaml(), place.path("results/copy/study.yaml")).unwrap();
    let both = text(&["list"]);
    assert!(both.lines().nth(1).unwrap().starts_with("copy        "), "{both}");
    assert!(both.contains("dtype=int4 rank=64"), "{both}");
    place
        .expctl(&["list", "experiments"])
        .code(2)
        .stderr(predicate::str::contains("there is no study in `experiments`"));
}

#[test]
fn show_shows_a_cell() {
    let place = Place::new(SPEC);
    let id = &place.study.cells[0].id;
    let text = |args: &[&str]| String::from_utf8(place.expctl(args).success().get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!("show", text(&["show", &id[..6]]));
    let folder = format!("results/rank_sweep/cells/{id}");
    assert_eq!(text(&["show", &id[..6]]), text(&["show", &folder]));
    assert_eq!(text(&["show", id]), text(&["show", &format!("{folder}/record.json")]));

    let json: serde_json::Value = serde_json::from_str(&text(&["show", id, "--format", "json"])).unwrap();
    assert_eq!(
        (&json["cell"]["rank"], &json["steps"][2]["step"]),
        (&4.into(), &3.into())
    );
    let csv = text(&["show", id, "--format", "csv"]);
    assert!(
        csv.starts_with("step,loss,gradient_norm,learning_rate,tokens,seconds,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 4);

    place
        .expctl(&["show", "zz"])
        .code(2)
        .stderr(predicate::str::contains("has an id that begins with `zz`"));
    place
        .expctl(&["show", ""])
        .code(2)
        .stderr(predicate::str::contains("is 16 cells; name one by its path"));
}
