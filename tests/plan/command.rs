//! `expctl plan`, and predictions wherever else a user sees them.

use std::fs;

use expctl::records::Status;
use expctl::records::store::read_record;
use serde_json::Value;

use crate::common::project::Project;

/// Two cells of our trainer. The instruction set is given, so that no CPU decides what is kept in which format.
const SMALL: &str = "\
name: small
defaults: { model: tiny, instruction_set: avx2, batch_size: 2, max_seq_length: 32, max_steps: 2 }
sweep: { grid: { dtype: [float32, int4] } }
";

/// Cells of PyTorch's stack: the allocator's settings matter.
const TORCH: &str = "\
name: torch
defaults: { stack: torch, model: smollm2-135m, dtype: bfloat16, batch_size: 4, max_seq_length: 512, gpu: t4 }
sweep:
  include:
    - { gradient_checkpointing: none }
    - { gradient_checkpointing: full }
";

/// Two cells: the first fits into its budget, the second only with smaller settings.
const BUDGETED: &str = "\
name: budgeted
defaults: { model: tiny, dtype: float32, instruction_set: avx2, max_seq_length: 64, max_steps: 2, device_memory: 3MiB }
sweep: { grid: { batch_size: [1, 16] } }
";

#[test]
fn a_plan_is_a_table() {
    insta::assert_snapshot!("small", Project::new(SMALL).plan(&[]));
    insta::assert_snapshot!("torch", Project::new(TORCH).plan(&[]));
}

#[test]
fn programs_read_json_and_csv() {
    let project = Project::new(SMALL);
    let json = project.plan(&["--format", "json", "--set", "dtype=int4"]);
    insta::assert_snapshot!("small_json", json);
    insta::assert_snapshot!("small_csv", project.plan(&["--format", "csv"]));
    let cells = project.planned(&[]);
    let peaks: Vec<u64> = cells
        .iter()
        .map(|cell| number(&cell["predicted_allocated_peak_bytes"]))
        .collect();
    assert!(peaks[0] > peaks[1], "{peaks:?}: float32 takes more than int4");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

#[test]
fn nothing_is_written() {
    let project = Project::new(SMALL);
    assert_eq!(project.plan(&[]).code, 0);
    assert_eq!(fs::read_dir(project.path("")).unwrap().count(), 1);
}

#[test]
fn what_does_not_fit_is_told_what_would() {
    let project = Project::new(BUDGETED);
    let output = project.plan(&[]);
    assert_eq!(output.code, 3);
    insta::assert_snapshot!("oversize", output);
    insta::assert_snapshot!("oversize_by_more", project.plan(&["--budget", "1MiB"]));
    let advice = &project.planned(&[])[1]["advice"];
    let changes: Vec<&Value> = advice
        .as_array()
        .unwrap()
        .iter()
        .map(|advice| &advice["changes"])
        .collect();
    assert!(!changes.is_empty());
    for advice in advice.as_array().unwrap() {
        assert_eq!(advice["predicted_verdict"], "fits", "{advice}");
        // A cell with the advised changes has the figures that the advice names.
        let settings: Vec<String> = advice["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change.as_str().unwrap().replacen(": ", "=", 1))
            .collect();
        let mut arguments = Vec::new();
        for setting in &settings {
            arguments.extend(["--set", setting.as_str()]);
        }
        if !settings[0].starts_with("batch_size") {
            arguments.extend(["--set", "batch_size=16"]);
        }
        let changed = project.planned(&arguments);
        assert_eq!(changed.len(), 1, "{arguments:?}");
        for key in [
            "predicted_allocated_peak_bytes",
            "predicted_verdict",
            "predicted_budget_bytes",
        ] {
            assert_eq!(changed[0][key], advice[key], "{arguments:?}: {key}");
        }
    }
}

#[test]
fn nothing_may_be_enough() {
    let output = Project::new(BUDGETED).plan(&["--budget", "8KiB"]);
    assert_eq!(output.code, 3);
    insta::assert_snapshot!("nothing_fits", output);
}

#[test]
fn a_budget_is_a_size_or_a_gpu() {
    let project = Project::new(TORCH);
    for (budget, code) in [("1GiB", 3), ("16GiB", 0), ("NVIDIA GeForce RTX 3090", 0), ("t4", 0)] {
        let output = project.plan(&["--budget", budget]);
        assert_eq!((output.code, output.stderr.as_str()), (code, ""), "{budget}: {output}");
    }
    // A GPU's budget is its memory, also where the cells name another.
    let bytes = number(&project.planned(&["--budget", "rtx-3090"])[0]["predicted_budget_bytes"]);
    assert_eq!(bytes, 25_414_860_800);
    for (budget, help) in [
        ("rtx-3900", "did you mean `rtx-3090`?"),
        ("a100", "write its size too: `a100-40gb` or `a100-80gb`"),
        ("6", "a size has a unit; write `6GB`"),
        ("radeon", "memory is predicted for NVIDIA's GPUs alone"),
    ] {
        let output = project.plan(&["--budget", budget]);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains(help), "{output}");
    }
}

#[test]
fn a_gpu_as_the_budget_is_the_one_that_is_planned_for() {
    let project = Project::new(
        "name: gpus\ndefaults: { stack: torch, model: smollm2-135m, max_seq_length: 64 }\n\
         sweep: { grid: { gpu: [t4, rtx-3090] } }\n",
    );
    let needed = |cell: &Value| number(&cell["predicted_needed_bytes"]);
    let own = project.planned(&[]);
    assert_ne!(needed(&own[0]), needed(&own[1]));
    let other = project.planned(&["--budget", "rtx-3090"]);
    for cell in &other {
        assert_eq!(
            (cell["gpu"].as_str(), needed(cell)),
            (Some("rtx-3090"), needed(&own[1]))
        );
    }
}

#[test]
fn without_a_replay_nothing_is_said_of_what_is_reserved() {
    let project = Project::new(TORCH);
    let with = project.planned(&[]);
    let without = project.planned(&["--no-replay"]);
    for (with, without) in with.iter().zip(&without) {
        for key in [
            "predicted_reserved_peak_bytes",
            "predicted_fragmentation_bytes",
            "predicted_segments",
            "predicted_process_peak_bytes",
        ] {
            assert!(with[key].is_u64() && without[key].is_null(), "{key}");
        }
        // Without it a block is what was asked for; the allocator gives larger ones where the rest is not worth keeping.
        let key = "predicted_allocated_peak_bytes";
        let (with, without) = (number(&with[key]), number(&without[key]));
        assert!(without <= with && with - without < with / 50, "{with} and {without}");
    }
    assert!(!project.plan(&["--no-replay"]).stdout.contains("reserved"));
}

#[test]
fn the_allocators_settings_change_what_is_reserved() {
    let axis = "allocator.env.PYTORCH_CUDA_ALLOC_CONF: [null, 'expandable_segments:True']";
    let spec = format!(
        "name: x\ndefaults: {{ stack: torch, model: smollm2-135m, dtype: bfloat16, batch_size: 4, padding: longest, \
         data: {{ synthetic: {{ lengths: [512, 200, 300, 77, 411] }} }}, max_seq_length: 512, max_steps: 3 }}\n\
         sweep:\n  grid:\n    {axis}\n"
    );
    let cells = Project::new(&spec).planned(&[]);
    let [default, expandable] = &cells[..] else {
        panic!("{cells:?}")
    };
    let key = "predicted_reserved_peak_bytes";
    assert!(number(&expandable[key]) < number(&default[key]), "{cells:?}");
    // Its blocks can be split anywhere, so that fewer are larger than what was asked for.
    let key = "predicted_allocated_peak_bytes";
    assert!(number(&expandable[key]) < number(&default[key]), "{cells:?}");
}

#[test]
fn a_plan_can_be_a_report() {
    let published = "\
published:
- { column: allocated_peak_bytes, value: 3.0, unit: MiB, metric: allocated, cell: { dtype: float32 }, source: Somebody }
report: { template: plan, output: report.md }
";
    let project = Project::new(&format!("{SMALL}{published}"));
    let output = project.plan(&["--report"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "wrote report-categories.svg\nwrote report.md\n"),
        "{output}"
    );
    insta::assert_snapshot!("report", project.read("report.md"));
    let other = project.plan(&["--report=other.md"]);
    assert_eq!(other.stdout, "wrote other-categories.svg\nwrote other.md\n");
    let lines = |path: &str| project.read(path).lines().count();
    assert_eq!(lines("other.md"), lines("report.md"));

    let output = Project::new(SMALL).plan(&["--report"]);
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("names no `output`; give a file: --report=FILE"),
        "{output}"
    );
}

const PLANNED: &str = "\
name: first
defaults: { stack: torch, model: smollm2-135m, weights: random, rank: 8, max_seq_length: 64, gpu: t4,
            data: { synthetic: { lengths: fixed, samples: 64 } } }
sweep: { grid: { batch_size: [1, 32] } }
report: { template: plan, output: first.md }
";

#[test]
fn a_report_of_a_plan_replaces_no_part_of_the_study() {
    let project = Project::new(PLANNED);
    project.write("data.csv", "a\n");
    project.write("data.txt", "One line.\n\nAnother line.\n\n");
    project.write("own.j2", "# {{ study.name }}\n");
    project.write(
        "trained.yaml",
        "name: ours\ndefaults: { model: tiny, max_seq_length: 32, data: { path: data.txt } }\n",
    );
    let refuses = |arguments: &[&str], file: &str| {
        let before = project.read(file);
        let refused = project.expctl(arguments).exits(2);
        refused.stderr_has("the report cannot be");
        assert_eq!(project.read(file), before);
    };
    refuses(&["plan", "spec.yaml", "--report=spec.yaml"], "spec.yaml");
    refuses(&["plan", "spec.yaml", "--report=./data.csv"], "data.csv");
    refuses(&["plan", "trained.yaml", "--report=data.txt"], "data.txt");
    refuses(&["report", "spec.yaml", "--output", "spec.yaml"], "spec.yaml");
    let with_template = ["report", "spec.yaml", "--template", "own.j2", "--output", "own.j2"];
    refuses(&with_template, "own.j2");
}

#[test]
fn a_report_of_a_plan_says_how_it_was_made() {
    let project = Project::new(PLANNED);
    let made_by = |arguments: &[&str], output: &str| {
        project.expctl(arguments).exits(0);
        let report = project.read(output);
        let (_, command) = report.split_once("```sh\n").unwrap();
        command.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        made_by(
            &["plan", "spec.yaml", "--budget", "1GiB", "--no-replay", "--report=b.md"],
            "b.md"
        ),
        "expctl plan spec.yaml --budget=1GiB --no-replay --report=b.md"
    );
    assert_eq!(
        made_by(&["plan", "spec.yaml", "--report"], "first.md"),
        "expctl plan spec.yaml --report"
    );
    project.expctl(&["report", "spec.yaml", "--check"]).exits(0);
    assert_eq!(
        made_by(
            &["report", "spec.yaml", "--template", "claims", "--output", "c.md"],
            "c.md"
        ),
        "expctl report spec.yaml --template=claims --output=c.md"
    );
    project
        .expctl(&["report", "spec.yaml", "--all"])
        .exits(2)
        .stderr_has("--all reads records");
}

/// A plan has no records, and misses none.
#[test]
fn reports_of_plans_list_no_unfinished_cells() {
    for template in ["comparison", "method_comparison", "profiler_vs_epoch", "claims"] {
        for spec in [SMALL, TORCH] {
            let project = Project::new(&format!(
                "{spec}report: {{ template: {template}, output: report.md }}\n"
            ));
            project.expctl(&["plan", "spec.yaml", "--report"]).exits(0);
            let report = project.read("report.md");
            let wrong = ["not run", "did not finish", "failed"];
            assert!(!wrong.iter().any(|text| report.contains(text)), "{report}");
            assert_eq!(report.contains("## Predicted"), template != "claims", "{report}");
            assert!(
                !report.contains("## Results") && !report.contains("## Methods"),
                "{report}"
            );
        }
    }
}

#[test]
fn reports_of_plans_are_checked_against_their_specs() {
    let torch = "\
name: first
defaults: { stack: torch, model: smollm2-135m, weights: random, rank: 8, max_seq_length: 64,
            data: { synthetic: { lengths: fixed, samples: 16 } } }
report: { template: plan, output: first.md }
";
    let project = Project::empty();
    project.write("first.yaml", torch);
    project.write("second.yaml", torch.replace("first", "second"));
    let specs = ["first.yaml", "second.yaml"];
    let plan = |options: &[&str]| project.expctl(&[&["plan"], options, &specs].concat());
    let report = |options: &[&str]| project.expctl(&[&["report"], options, &specs].concat());
    plan(&["--report"]).exits(0).stdout_has("wrote second.md\n");
    let fresh = "first.md is up to date with first.yaml\nsecond.md is up to date with second.yaml\n";
    plan(&["--report", "--check"]).exits(0).stdout_is(fresh);
    report(&["--check"]).exits(0).stdout_is(fresh);
    let text = project.read("second.md");
    assert!(text.contains("Nothing was run: expctl"), "{text}");
    assert!(text.contains("5.23.0 or newer"), "{text}");

    project.write("second.md", text.replace("# second", "# Second"));
    let stale = report(&["--check"]).exits(1);
    stale.stderr_has("`second.md` is stale at line 1");
    stale.stdout_has("first.md is up to date");
    plan(&["--report", "--check"])
        .exits(1)
        .stderr_has("`second.md` is stale");
    report(&[])
        .exits(0)
        .stdout_is("first.md is up to date with first.yaml\nwrote second.md\n");
    assert_eq!(project.read("second.md"), text);

    let both = plan(&[]).exits(0);
    both.stdout_has("first.yaml\n").stdout_has("second.yaml\n");
    let json = plan(&["--format", "json"]).exits(0);
    let cells: Value = serde_json::from_str(&json.stdout).unwrap();
    let named = |name: &str| {
        cells
            .as_array()
            .unwrap()
            .iter()
            .filter(|cell| cell["name"] == name)
            .count()
    };
    assert_eq!(
        named("first") + named("second"),
        cells.as_array().unwrap().len(),
        "{json}"
    );
    assert!(named("first") > 0 && named("second") > 0, "{json}");
    assert!(cells[0]["cell_id"].is_string(), "{json}");
    let junit = plan(&["--format", "junit"]).exits(0);
    junit
        .stdout_has("<testcase name=\"first\"")
        .stdout_has("<testcase name=\"second\"");
    plan(&["--format", "csv"]).exits(0).stdout_has("name,cell_id,");
    plan(&["--report=x.md"]).exits(2).stderr_has("is for one spec");
    plan(&["--check"]).exits(2).stderr_has("--report");
}

#[test]
fn what_is_measured_stands_beside_what_was_predicted() {
    let published = "\
published:
- { column: allocated_peak_bytes, value: 3.0, unit: MiB, metric: allocated, cell: { dtype: float32 }, source: Somebody }
report: { output: report.md }
";
    let project = Project::new(&format!("{SMALL}{published}"));
    let output = project.run(&[]);
    assert_eq!(output.code, 0, "{output}");
    let report = project.read("report.md");
    let row = report
        .lines()
        .find(|line| line.contains("Somebody") || line.contains(" 3.0 MiB"))
        .unwrap();
    let header = report
        .lines()
        .find(|line| line.contains("Published") && line.contains("Predicted"));
    assert!(header.unwrap().contains("Measured"), "{report}");
    assert_eq!(
        row.matches(" MiB ").count(),
        4,
        "published, measured, predicted, difference: {row}"
    );

    // `show` has the plan's figure, and the plan predicts what the run did.
    let id = project.planned(&[])[0]["cell_id"].as_str().unwrap().to_owned();
    let shown = project.expctl(&["show", &id, "--results", "out", "--format", "json"]);
    let shown = shown.json();
    assert_eq!(
        shown["prediction"]["allocated_peak_bytes"],
        project.planned(&[])[0]["predicted_allocated_peak_bytes"]
    );
    let text = project.expctl(&["show", &id, "--results", "out"]).stdout;
    let (_, prediction) = text.split_once("\nPrediction\n").unwrap();
    let (prediction, _) = prediction.split_once("\nOutcome\n").unwrap();
    insta::assert_snapshot!("shown", prediction);
}

#[test]
fn what_cannot_be_planned_is_an_error() {
    let wrong = |defaults: &str| {
        let project = Project::new(&format!("name: x\ndefaults: {{ {defaults} }}\n"));
        project.write("short.txt", "a\n");
        let output = project.plan(&[]);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stdout.is_empty(), "{output}");
        format!("{defaults}\n{}", project.without_folder(&output.stderr))
    };
    let errors = [
        "model: ./nowhere",
        "model: tny",
        "model: tiny, max_seq_length: 513",
        "model: tiny, data: { path: nowhere.txt }",
        "model: tiny, data: { path: short.txt }",
        "stack: torch, model: ./nowhere",
        "stack: torch, model: bert-base, task: sequence_classification, max_seq_length: 513",
        "stack: torch, model: llama-2-7b, task: sequence_classification",
        "stack: torch, model: phi-3-mini, target_modules: [q_proj]",
        "model: bert-base, task: sequence_classification, target_modules: [q_lin]",
        "stack: torch, model: llama-2-7b, data: sample",
    ]
    .map(wrong);
    insta::assert_snapshot!("errors", errors.join("\n"));
}

#[test]
fn data_of_a_file_are_planned_as_they_are_trained() {
    let project = Project::new(
        "name: x\ndefaults: { model: tiny, dtype: float32, instruction_set: avx2, max_seq_length: 64, batch_size: 2, \
         max_steps: 2, padding: longest, data: { path: lines.txt } }\n",
    );
    let lines = [
        "A short line.",
        "A line that is a good deal longer than the others are.",
        "Words.",
        "Three more words.",
    ];
    project.write("lines.txt", (lines.join("\n\n") + "\n\n").repeat(3));
    let planned = number(&project.planned(&[])[0]["predicted_allocated_peak_bytes"]);
    let output = project.run(&["--progress", "none"]);
    assert_eq!(output.code, 0, "{output}");
    let id = project.planned(&[])[0]["cell_id"].as_str().unwrap().to_owned();
    let record = read_record(&project.results().cell(&id)).unwrap().unwrap();
    let measured = record.measured.unwrap().allocated_peak_bytes.unwrap();
    assert!(
        planned.abs_diff(measured) * 200 < measured,
        "{planned} predicted, {measured} measured"
    );
}

#[test]
fn another_stack_is_planned_and_not_run() {
    let project = Project::new(TORCH);
    for arguments in [&[][..], &["--dry-run"]] {
        let output = project.run(arguments);
        assert_eq!(output.code, 2, "{output}");
        assert_eq!(
            project.without_folder(&output.stderr),
            "error: spec.yaml:2:20: `stack: torch`: cells of this stack are planned and not run, and there are no others; \
             `expctl plan spec.yaml` says what they take, and `--engine python` runs them with a Python that has PyTorch\n"
        );
    }
    assert!(!project.path("out").exists());
}

#[test]
fn what_is_predicted_not_to_fit_can_be_left_out() {
    let project = Project::new(BUDGETED);
    let output = project.run(&["--skip-oversize"]);
    assert_eq!(output.code, 0, "{output}");
    let ids: Vec<String> = project
        .planned(&[])
        .iter()
        .map(|cell| cell["cell_id"].as_str().unwrap().to_owned())
        .collect();
    let results = project.results();
    let record = |index: usize| read_record(&results.cell(&ids[index])).unwrap().unwrap();
    assert_eq!(record(0).status, Status::Ok);
    let left_out = record(1);
    assert_eq!(left_out.status, Status::Oversize);
    assert!(left_out.measured.is_none());
    let reason = left_out.reason.as_deref().unwrap();
    assert!(
        reason.starts_with("predicted peak ") && reason.ends_with(" past the budget of 3.0 MiB (device_memory)"),
        "{reason}"
    );
    let frame = project.expctl(&["list", "out", "--format", "json"]).stdout;
    assert!(frame.contains("oversize"), "{frame}");
    let report = project.read("out/report.md");
    assert!(report.contains("oversize"), "{report}");

    // A run without the flag trains what was left out: it is past its budget indeed.
    let output = project.run(&[]);
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(record(1).status, Status::Oom);
    assert_eq!(record(1).attempt, 2);
    // And that is a result: it is not made worse by a prediction.
    project.run(&["--skip-oversize"]);
    assert_eq!(record(1).status, Status::Oom);
}
