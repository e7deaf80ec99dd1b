//! The engine in Python: which interpreter runs it, what it is asked for, and what becomes of a cell whose worker misbehaves.
//! No PyTorch is needed: a script stands for the interpreter. `python/engine/check.py` trains with a real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use expctl::records::store::{CellDir, read_prediction, read_record};
use expctl::records::{Record, Status};
use serde_json::Value;

use crate::common::project::{Output, Project};

const SPEC: &str = "\
name: engines
defaults: { engine: python, model: tiny, dtype: float32, max_steps: 2, max_seq_length: 16, batch_size: 2, rank: 4 }
";

/// What an interpreter with these packages prints of its machine.
fn offer(packages: &str) -> String {
    format!(
        r#"{{"protocol": 1, "engine": "python", "machine": {{"cpu": "none", "cores": 1, "memory_bytes": null, "os": "any"}},
        "instruction_set": "portable", "auto_instruction_set": "portable", "allocators": [], "cuda": false,
        "releases": {{{packages}}}, "gpus": []}}"#
    )
    .replace('\n', " ")
}

const ALL: &str = r#""torch": "2.15.0+cpu", "transformers": "5.24.0", "peft": "0.21.2", "safetensors": "0.8.0""#;

/// A record of the cell in `$3`, and its inputs beside it.
const TRAINS: &str = r#"
"$EXPCTL_PROGRAM" inputs "$3" --base-dir "$5" --own "$EXPCTL_INPUTS/own" --shared "$EXPCTL_INPUTS/weights" --parent $$ > "$3/inputs.json" || exit 1
cp "$EXPCTL_INPUTS/own/batches.jsonl" "$3/batches.jsonl"
cp "$EXPCTL_INPUTS"/weights/*/config.json "$3/config.json"
cat > "$3/record.json" <<END
{"cell_id": "$(basename "$3")", "status": "ok", "attempt": $7, "started_at": "2026-01-01T00:00:00Z", "wall_seconds": 1.0,
 "measured": {"steps": 2, "loss_first": 2.0, "loss_last": 1.0, "step_seconds_median": 0.1, "tokens_per_second": 10.0,
  "train_seconds": 0.2, "load_seconds": 0.1, "tokens": 64, "allocated_peak_bytes": null, "allocated_mean_bytes": null,
  "reserved_peak_bytes": null, "process_peak_bytes": 1048576, "allocated_peak_by_category": {}, "allocated_peak_in_phase": {},
  "parameter_count": 10, "trainable_count": 1, "adapter_file_bytes": null, "page_faults": null, "page_faults_per_step_median": null},
 "provenance": {"expctl_version": "0.1.0", "git_commit": null, "device": "cpu", "environment": {}, "engine": "python",
  "releases": {"torch": "2.15.0"}, "threads": 1, "machine": {"cpu": "none", "cores": 1, "memory_bytes": null, "os": "any"}, "data_sha256": null}}
END
"#;

/// A script in the place of Python. It does `cell` for a cell.
fn interpreter(project: &Project, path: &str, packages: &str, cell: &str) -> String {
    let offer = offer(packages);
    project.write(
        path,
        format!("#!/bin/sh\nif [ \"$2\" = machine ]; then\ncat <<'END'\n{offer}\nEND\nexit\nfi\n{cell}\n"),
    );
    fs::set_permissions(project.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    project.path(path).display().to_string()
}

fn run(project: &Project, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = project.run_command(arguments);
    command.env_remove("VIRTUAL_ENV").envs(variables.iter().copied());
    Output::of(&mut command)
}

/// The folder of the only cell.
fn cell(project: &Project) -> CellDir {
    let mut cells = fs::read_dir(project.path("out/cells")).unwrap();
    CellDir::new(cells.next().unwrap().unwrap().path())
}

fn record(project: &Project) -> Record {
    read_record(&cell(project)).unwrap().unwrap()
}

#[test]
fn cells_of_pytorchs_stack_are_run_and_predicted() {
    let project = Project::new(&format!(
        "{SPEC}claims:\n- claim: It learns.\n  source: Somebody\n  holds: loss_last() < loss_first()\n"
    ));
    let claims = "mean('loss_last') < mean('loss_first')";
    project.write(
        "spec.yaml",
        project.read("spec.yaml").replace("loss_last() < loss_first()", claims),
    );
    let python = interpreter(&project, "bin/python", ALL, TRAINS);
    let output = run(&project, &[], &["--python", &python, "--progress", "plain"]).exits(0);
    output.stderr_has(
        "bin/python` (by --python): torch 2.15.0+cpu, transformers 5.24.0, peft 0.21.2; no GPU, so the CPU",
    );
    output.stdout_has("1 claim: 1 supported");
    assert!(project.read("out/report.md").contains("python"));
    let record = record(&project);
    assert_eq!(record.status, Status::Ok);
    assert_eq!(record.provenance.engine.as_deref(), Some("python"));
    assert!(project.read("out/cells.csv").contains("python"));
    let planned = read_prediction(&cell(&project)).unwrap().unwrap();
    assert!(planned.allocated_peak_bytes > 0);
    // On the CPU nothing is reserved, and there is no context of CUDA.
    assert_eq!([planned.reserved_peak_bytes, planned.process_peak_bytes], [None; 2]);
    assert!(!project.path("out/.inputs").exists());
    let again = run(&project, &[], &["--python", "/nowhere"]).exits(0);
    again.stderr_has("1 kept");
}

/// The batches that Python trains on are those of our trainer, and so are the weights.
#[test]
fn python_begins_as_our_trainer_does() {
    let project = Project::new(SPEC);
    let python = interpreter(&project, "bin/python", ALL, TRAINS);
    run(&project, &[], &["--python", &python]).exits(0);
    let cell = cell(&project);
    let read = |name: &str| fs::read_to_string(cell.path().join(name)).unwrap();
    let inputs: Value = serde_json::from_str(&read("inputs.json")).unwrap();
    assert_eq!(inputs["cell"]["lora_alpha"], 8.0, "defaults are filled in");
    assert_eq!(inputs["cell"]["device"], "auto");
    assert_eq!(inputs["learning_rates"].as_array().unwrap().len(), 2);
    assert!(
        inputs["start"]
            .as_array()
            .unwrap()
            .iter()
            .any(|name| name.as_str().unwrap().ends_with("q_proj.lora_A.weight"))
    );
    let steps: Vec<Value> = read("batches.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0]["counted"], 30);
    assert_eq!(steps[0]["micro"][0]["ids"].as_array().unwrap().len(), 32);
    assert_eq!(steps[0]["micro"][0]["predicted"].as_array().unwrap().len(), 30);
    assert!(read("config.json").contains("\"torch_dtype\": \"float32\""));
}

#[test]
fn the_first_interpreter_that_is_named_is_asked() {
    let project = Project::new(&format!("{SPEC}python: ./of/spec\n"));
    let asked = |variables: &[(&str, &str)], arguments: &[&str]| {
        let output = run(&project, variables, arguments).exits(2);
        let (_, named) = output.stderr.split_once("Python `").unwrap();
        project.without_folder(named.split_once("):").unwrap().0)
    };
    let variable = [("EXPCTL_PYTHON", "/of/variable")];
    assert_eq!(
        asked(&variable, &["--python", "/of/option"]),
        "/of/option` (by --python"
    );
    assert_eq!(asked(&variable, &[]), "/of/variable` (by EXPCTL_PYTHON");
    let active = [("VIRTUAL_ENV", "/of/active")];
    assert_eq!(asked(&active, &[]), "./of/spec` (by the spec");
    project.write("spec.yaml", SPEC);
    assert_eq!(asked(&active, &[]), "/of/active/bin/python` (by VIRTUAL_ENV");
    project.write(".venv/bin/python", "no program");
    let output = run(&project, &[], &[]).exits(2);
    output.stderr_has(".venv/bin/python` (by .venv beside the spec)");
}

#[test]
fn what_an_interpreter_lacks_is_said_before_anything_runs() {
    let project = Project::new(SPEC);
    let without = interpreter(
        &project,
        "bin/without",
        r#""torch": "2.15.0", "safetensors": "0.8.0""#,
        TRAINS,
    );
    let output = run(&project, &[], &["--python", &without]).exits(2);
    output.stderr_has("has no transformers, peft; `");
    output.stderr_has("bin/without -m pip install transformers peft` installs it");
    let python = interpreter(&project, "bin/python", ALL, TRAINS);
    for (key, expected) in [
        ("dtype=int4", "`dtype: int4`: Python `"),
        ("optim=paged_adamw_8bit", "has no bitsandbytes; `"),
        (
            "optim=adamw_hf",
            "transformers has none of its own from 5.0 on; use `adamw`",
        ),
        (
            "torch.transformers_version=4.57.6",
            "has transformers 5.24.0, and the cell names 4.57.6",
        ),
        ("device=cuda:0", "PyTorch finds no GPU of CUDA there"),
        ("device_memory=1GiB", "keeps no budget of the CPU's memory"),
    ] {
        let output = run(&project, &[], &["--python", &python, "--set", key]).exits(2);
        output.stderr_has(expected);
    }
    let none = run(&project, &[], &["--python", "./nowhere"]).exits(2);
    none.stderr_has("there is none; name one with --python, EXPCTL_PYTHON or the spec's `python`");
    let other = run(&project, &[], &["--python", "/bin/echo"]).exits(2);
    other.stderr_has("it does not say what machine it is on");
    assert!(!project.path("out/cells").exists());
}

#[test]
fn uv_is_asked_for_the_releases_of_each_cell() {
    let spec = SPEC.replace("rank: 4", "rank: 0, optim: sgd");
    let project = Project::new(&format!(
        "{spec}python: uv\nsweep: {{ grid: {{ torch.transformers_version: ['4.57.6', '5.23.0'] }} }}\n"
    ));
    let line = format!(
        "echo \"$*\" >> {}\nwhile [ \"$1\" != python ]; do shift; done\nshift\nset -- worker \"$@\"\nshift\n",
        project.path("lines").display()
    );
    let script = interpreter(&project, "bin/inner", ALL, TRAINS);
    project.write("bin/uv", format!("#!/bin/sh\n{line}{script} \"$@\"\n"));
    fs::set_permissions(project.path("bin/uv"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", project.path("bin").display());
    let output = run(&project, &[("PATH", &path)], &[]).exits(0);
    output.stderr_has("uv fetches what it has not of transformers==4.57.6, torch==2.15.0, accelerate, safetensors");
    let lines = project.read("lines");
    let with = |release: &str| {
        lines
            .lines()
            .filter(|line| line.contains(&format!("--with transformers=={release}")))
            .count()
    };
    // Each is asked about its machine once, and runs a cell.
    assert_eq!([with("4.57.6"), with("5.23.0")], [2, 2]);
    assert!(!lines.contains("peft"), "no cell has adapters: {lines}");
}

#[test]
fn a_worker_that_misbehaves_costs_its_cell_alone() {
    let rubbish = "echo 'no event'; echo '{\"event\": \"step\", \"step\": 1}'; head -c 100000 /dev/zero; echo 'its last words' >&2; exit 7";
    let oom = r#"echo '{"phase": "forward", "category": "temporary", "requested_bytes": 4194304, "allocated_bytes": 1024, "budget_bytes": null}' > "$3/oom.json"; exit 42"#;
    for (cell, status, reason) in [
        (rubbish, Status::Failed, "exit code 7 and no record: its last words"),
        ("kill -9 $$", Status::Killed, "ended by SIGKILL"),
        (
            "sleep 60 & sleep 60 & wait",
            Status::Timeout,
            "stopped at the limit of 1s",
        ),
        (oom, Status::Oom, "forward: 4.0 MiB"),
        ("exit 0", Status::Lost, "left no record"),
    ] {
        let project = Project::new(SPEC);
        let python = interpreter(&project, "bin/python", ALL, cell);
        let arguments = [
            "--python",
            &python,
            "--set",
            "limits.timeout=1s",
            "--set",
            "limits.retries=0",
        ];
        run(&project, &[], &arguments);
        let record = record(&project);
        assert_eq!(record.status, status, "{cell}");
        let found = record.reason.unwrap();
        assert!(found.contains(reason), "{found}");
        assert!(!project.path("out/.inputs").exists());
    }
}

#[test]
fn engines_are_an_axis() {
    let project = Project::new(
        "name: both\ndefaults: { model: tiny, dtype: float32, max_steps: 2, max_seq_length: 16, batch_size: 2 }\n\
         sweep: { grid: { engine: [candle, python] } }\n",
    );
    let python = interpreter(&project, "bin/python", ALL, TRAINS);
    let output = run(&project, &[], &["--python", &python]).exits(0);
    output.stdout_has("2 of 2 cells have a result");
    let cells = project.expctl(&["list", "out", "--format", "json"]).exits(0).json();
    let stacks: Vec<&str> = cells
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["stack"].as_str().unwrap())
        .collect();
    assert_eq!(stacks, ["candle", "torch"]);
    // A cell of our trainer keeps the id that it has without the key.
    let id = cells[0]["cell_id"].clone();
    project.write(
        "spec.yaml",
        SPEC.replace("engine: python, ", "").replace(", rank: 4", ""),
    );
    let alone = run(&project, &[], &["--dry-run", "--format", "json"]).exits(0);
    assert!(alone.stdout.contains(id.as_str().unwrap()), "{alone}");
}

#[test]
fn what_python_cannot_do_is_an_error() {
    let project = Project::new(SPEC);
    for (key, expected) in [
        (
            "distributed=deepspeed,dtype=bfloat16",
            "distributed: the Python engine trains with `ddp` and `fsdp` so far",
        ),
        (
            "loss=chunked",
            "loss: the Python engine computes `full` and `liger` so far",
        ),
        ("optim=rsvd", "no package of Python has it"),
        ("instruction_set=avx2", "instruction_set: is for our trainer alone"),
        ("stack=candle", "engine: python runs cells of `stack: torch`"),
        ("device=cuda", "did you mean `cuda:0`?"),
        (
            "record.timeline=true",
            "a timeline is recorded by our trainer on the cpu only so far",
        ),
    ] {
        let keys = key.split(',').flat_map(|key| ["--set", key]);
        let line: Vec<&str> = ["validate", "spec.yaml"].into_iter().chain(keys).collect();
        let output = project.expctl(&line).exits(2);
        output.stderr_has(expected);
    }
    let planned = project.expctl(&[
        "validate",
        "spec.yaml",
        "--set",
        "engine=null",
        "--set",
        "stack=torch",
        "--set",
        "threads=2",
    ]);
    planned.exits(2).stderr_has("is planned alone, unless `engine` runs it");
}
