//! `record: {save_steps: ...}`: a cell whose process is ended goes on from its latest checkpoint, bit for bit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use expctl::records::Status;
use rustix::process::Signal;
use serde_json::Value;

use crate::background::{start, wait_until_gone};
use crate::common::project::{Output, Project};

/// Cells over the methods, the optimizers, and what else a step leaves to the next one.
const SPEC: &str = "
name: kinds
defaults: { model: tiny, dtype: float32, max_seq_length: 24, batch_size: 2, max_steps: 8, data: sample, rank: 4, learning_rate: 1.0e-3 }
limits: { retries: 1 }
sweep:
  include:
    - { optim: adamw }
    - { optim: adamw_8bit, rank: 0 }
    - { optim: lion, dtype: bfloat16 }
    - { optim: sgd }
    - { optim: adafactor, rank: 0 }
    - { optim: galore, rank: 0, optim_rank: 3, update_proj_gap: 2 }
    - { optim: rsvd, rank: 0, optim_rank: 3, update_proj_gap: 6, max_grad_norm: 0.1 }
    - { optim: adamw, offload: { optimizer: true } }
    - { optim: galore, rank: 0, optim_rank: 3, update_proj_gap: 3, offload: { optimizer: true } }
    - { offload: { weights: { ratio: 0.5 }, checkpoints: true }, gradient_checkpointing: full }
    - { adapter: dora, dtype: int4 }
    - { adapter: ia3 }
    - { adapter: miss }
    - { adapter: vera }
    - { adapter: oft }
    - { adapter: loha }
    - { adapter: lokr }
    - { adapter: ln_tuning }
    - { adapter: prompt_tuning }
    - { adapter: prefix_tuning }
    - { lora: { init_lora_weights: pissa }, lora_dropout: 0.2, modules_to_save: [embed_tokens] }
    # Its fourth step overflows, and halves the scale of the loss.
    - { dtype: float16, loss_scaling: dynamic, instruction_set: portable, optim: lion, learning_rate: 0.1, max_grad_norm: 0 }
    - { packing: true, gradient_accumulation_steps: 3, eval_fraction: 0.1 }
    - { max_tokens_per_batch: 64, batch_size: 4, longest_first: true, empty_cache_steps: 2, allocator: { backend: system } }
    - { model: FIXTURES/tiny_distilbert, task: sequence_classification, data: synthetic, num_labels: 3 }
";

/// A worker whose process is killed after the checkpoint of step 3 or 5, in the first attempt at a cell: it trains on, and
/// what came after that checkpoint is lost.
const KILLED: &str = r#"#!/bin/sh
if [ "$1" = cell ] && [ ! -e "$2/killed" ]; then
    touch "$2/killed"
    for word; do
        shift
        [ "$before" = --parent ] && word=$$
        set -- "$@" "$word"
        before=$word
    done
    EXPCTL "$@"
    rm -rf "$2/record.json" "$2/adapter"
    [ -e "$2/checkpoints/checkpoint-3.bin" ] && rm -f "$2"/checkpoints/checkpoint-[4-9].bin
    kill -9 $$
fi
exec EXPCTL "$@"
"#;

fn killed(project: &Project) -> String {
    project.write("killed.sh", KILLED.replace("EXPCTL", env!("CARGO_BIN_EXE_expctl")));
    let path = project.path("killed.sh");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// The figures that two trainings of a cell share to the last bit: of its steps, and of its record.
pub fn figures(cell: &Path) -> (Vec<Value>, Value, Option<Vec<u8>>) {
    const OF_STEP: [&str; 9] = [
        "step",
        "loss",
        "gradient_norm",
        "learning_rate",
        "loss_scale",
        "skipped",
        "tokens",
        "allocated_bytes",
        "allocated_peak_bytes",
    ];
    const OF_PROCESS: [&str; 15] = [
        "load_seconds",
        "train_seconds",
        "step_seconds_median",
        "step_seconds_spread",
        "steps_timed",
        "tokens_per_second",
        "real_tokens_per_second",
        "reserved_peak_bytes",
        "process_peak_bytes",
        "process_peak_total_bytes",
        "system_used_peak_percent",
        "emptied_mean_bytes",
        "copy_wait_seconds_mean",
        "page_faults",
        "page_faults_per_step_median",
    ];
    let steps = fs::read_to_string(cell.join("steps.jsonl")).unwrap();
    let steps = steps.lines().map(|line| {
        let step: Value = serde_json::from_str(line).unwrap();
        OF_STEP.iter().map(|name| (*name, step[name].clone())).collect()
    });
    let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();
    let mut measured = record["measured"].clone();
    let map = measured.as_object_mut().unwrap();
    map.retain(|name, _| !OF_PROCESS.contains(&name.as_str()) && name != "resumed_steps");
    map["allocated_peak_by_category"]
        .as_object_mut()
        .unwrap()
        .remove("host");
    let adapter = fs::read(cell.join("adapter/adapter_model.safetensors")).ok();
    (steps.collect(), measured, adapter)
}

fn resumed(cell: &Path) -> Value {
    let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();
    record["measured"]["resumed_steps"].clone()
}

#[test]
fn every_kind_of_cell_goes_on_bit_for_bit() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let project = Project::new(&SPEC.replace("FIXTURES", &fixtures.display().to_string()));
    let undisturbed = project.run(&["--progress", "plain"]).exits(0);
    assert!(!undisturbed.stderr.contains("goes on from"), "{undisturbed}");
    let (worker, set) = (killed(&project), "record={save_steps: 5}");
    let disturbed = project
        .expctl(&[
            "run",
            "spec.yaml",
            "--results",
            "again",
            "--worker",
            &worker,
            "--set",
            set,
            "--progress",
            "plain",
        ])
        .exits(0);
    let cells = project.cells();
    assert_eq!(
        disturbed
            .stderr
            .matches("goes on from the checkpoint of step 5")
            .count(),
        cells.len()
    );
    for cell in cells {
        let again = project.path("again/cells").join(cell.file_name().unwrap());
        assert_eq!(
            figures(&again),
            figures(&cell),
            "{}",
            fs::read_to_string(cell.join("cell.yaml")).unwrap()
        );
        assert_eq!((resumed(&again), resumed(&cell)), (serde_json::json!([5]), Value::Null));
        assert!(!again.join("checkpoints").exists(), "they go with the end of the cell");
    }
}

const ONE: &str = "
name: one
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 7, rank: 4 }
record: { save_steps: 1, save_total_limit: 5 }
";

/// A cell that was killed, and the one that trained undisturbed.
fn one_killed(spec: &str) -> (Project, PathBuf, PathBuf) {
    let project = Project::new(spec);
    let undisturbed = [
        "run",
        "spec.yaml",
        "--results",
        "undisturbed",
        "--set",
        "record.save_steps=0",
    ];
    project.expctl(&undisturbed).exits(0);
    let worker = killed(&project);
    project.run(&["--worker", &worker]).exits(1);
    assert_eq!(project.statuses(), [Some(Status::Killed)]);
    let cell = project.cells().remove(0);
    let undisturbed = project.path("undisturbed/cells").join(cell.file_name().unwrap());
    (project, cell, undisturbed)
}

fn checkpoints(cell: &Path) -> Vec<String> {
    let entries = fs::read_dir(cell.join("checkpoints")).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let (project, cell, undisturbed) = one_killed(ONE);
    assert_eq!(checkpoints(&cell), ["checkpoint-3.bin"]);
    for step in [1, 2] {
        fs::copy(
            cell.join("checkpoints/checkpoint-3.bin"),
            cell.join(format!("checkpoints/checkpoint-{step}.bin")),
        )
        .unwrap();
    }
    // Two are of another step, so one alone holds.
    let output = project.run(&["--progress", "plain"]).exits(0);
    output.stderr_has("goes on from the checkpoint of step 3");
    assert_eq!(figures(&cell), figures(&undisturbed));

    for damage in [
        |bytes: &mut Vec<u8>| bytes.truncate(1000),
        |bytes: &mut Vec<u8>| bytes[2000] ^= 1,
    ] {
        let (project, cell, undisturbed) = one_killed(&ONE.replace("save_steps: 1", "save_steps: 3"));
        let path = cell.join("checkpoints/checkpoint-3.bin");
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(cell.join("checkpoints/checkpoint-6.bin"), &bytes).unwrap();
        let output = project.run(&["--progress", "plain"]).exits(0);
        output.stderr_has("checkpoint-6.bin` was changed after it was written");
        output.stderr_has("goes on from the checkpoint of step 3");
        assert_eq!(figures(&cell), figures(&undisturbed));
    }

    let (project, cell, undisturbed) = one_killed(ONE);
    fs::write(cell.join("checkpoints/checkpoint-3.bin"), "").unwrap();
    let output = project.run(&["--progress", "plain"]).exits(0);
    assert!(!output.stderr.contains("goes on from"), "{output}");
    assert_eq!(figures(&cell), figures(&undisturbed));
}

#[test]
fn a_checkpoint_of_other_data_or_another_build_is_left_out() {
    let spec = ONE.replace("rank: 4", "rank: 4, data: { path: text.txt }");
    let prose = "It was a text of some length.\n\nIt went on for a while.\n\n".repeat(20);
    let project = Project::new(&spec);
    project.write("text.txt", &prose);
    let worker = killed(&project);
    project.run(&["--worker", &worker]).exits(1);
    project.write("text.txt", prose.replace("some", "no"));
    let output = project.run(&["--progress", "plain"]).exits(0);
    output.stderr_has("the checkpoint of step 3 is left out: it is of other data");
    assert_eq!(resumed(&project.cells()[0]), Value::Null);

    let (project, cell, undisturbed) = one_killed(&ONE.replace("rank: 4", "rank: 4, env: { SOME: thing }"));
    assert_eq!(checkpoints(&cell).len(), 1);
    project.write("spec.yaml", ONE.replace("rank: 4", "rank: 4, threads: 1"));
    let other = project.cells().remove(0);
    fs::create_dir_all(other.join("checkpoints")).unwrap();
    fs::copy(
        cell.join("checkpoints/checkpoint-3.bin"),
        other.join("checkpoints/checkpoint-3.bin"),
    )
    .unwrap();
    project
        .run(&["--progress", "plain"])
        .exits(0)
        .stderr_has("was changed after it was written");
    assert!(undisturbed.exists());
}

#[test]
fn a_timeline_is_that_of_the_first_steps() {
    let timeline = ONE.replace("save_steps: 1", "save_steps: 1, timeline: true, timeline_steps: 2");
    let (project, cell, undisturbed) = one_killed(&timeline);
    let before = fs::read(cell.join("timeline.bin")).unwrap();
    let output = project.run(&["--progress", "plain"]).exits(0);
    output.stderr_has("goes on from the checkpoint of step 3");
    assert_eq!(fs::read(cell.join("timeline.bin")).unwrap(), before);
    assert_eq!(figures(&cell), figures(&undisturbed));
    assert_eq!(project.plan(), ["keep (ok)"]);
}

#[test]
fn a_fresh_run_and_one_without_the_key_heed_what_they_should() {
    let (project, cell, undisturbed) = one_killed(ONE);
    let output = project
        .run(&["--progress", "plain", "--set", "record.save_steps=0"])
        .exits(0);
    output.stderr_has("goes on from the checkpoint of step 3");
    assert_eq!(figures(&cell), figures(&undisturbed));

    let (project, cell, undisturbed) = one_killed(ONE);
    let output = project.run(&["--progress", "plain", "--fresh"]).exits(0);
    assert!(!output.stderr.contains("goes on from"), "{output}");
    assert_eq!((figures(&cell), resumed(&cell)), (figures(&undisturbed), Value::Null));
}

/// A cell that would train for hours.
const LONG: &str = "
name: long
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 10000000 }
record: { save_steps: 20 }
";

fn wait_for_checkpoints(project: &Project) -> PathBuf {
    let cells = project.path("out/cells");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let entries = fs::read_dir(&cells).into_iter().flatten();
        let found = entries
            .map(|entry| entry.unwrap().path())
            .find(|cell| checkpoints(cell).len() >= 2);
        if let Some(cell) = found {
            return cell;
        }
        assert!(Instant::now() < deadline, "no checkpoint was written");
        sleep(Duration::from_millis(5));
    }
}

/// The step that a run goes on from, as it says.
fn goes_on_from(output: &Output) -> usize {
    let (_, rest) = output
        .stderr
        .split_once("goes on from the checkpoint of step ")
        .unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

#[test]
fn a_cell_that_is_stopped_goes_on_in_the_next_run() {
    for signal in [Signal::KILL, Signal::INT] {
        let project = Project::new(LONG);
        let mut run = start(&project);
        run.wait_for_a_long_step();
        let child = run.child();
        let cell = wait_for_checkpoints(&project);
        run.signal(signal);
        run.wait();
        wait_until_gone(child);
        let steps = fs::read_to_string(cell.join("steps.jsonl")).unwrap();
        let latest = checkpoints(&cell);
        assert_eq!(latest.len(), 2, "{latest:?}");

        // A limit ends the second run.
        let output = project
            .run(&["--progress", "plain", "--set", "limits.timeout=2s"])
            .exits(1);
        let from = goes_on_from(&output);
        assert!(
            latest.contains(&format!("checkpoint-{from}.bin")),
            "{latest:?}: {output}"
        );
        let again = fs::read_to_string(cell.join("steps.jsonl")).unwrap();
        let first = |text: &str| text.lines().take(from).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            first(&again),
            first(&steps),
            "the lines of the steps that are not taken again"
        );
        let numbers = again
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["step"].clone());
        assert!(
            numbers.eq((1..=again.lines().count()).map(Value::from)),
            "each step once"
        );
        assert_eq!(project.statuses(), [Some(Status::Timeout)]);

        let output = project
            .run(&["--progress", "plain", "--set", "limits.timeout=2s"])
            .exits(1);
        assert!(goes_on_from(&output) > from, "a cell that took too long goes on, too");
    }
}

#[test]
fn what_has_no_checkpoints_is_an_error_with_its_place() {
    let project = Project::new(ONE);
    for (set, expected) in [
        (
            "record.save_steps=2.5",
            "record.save_steps: must be a whole number of steps, or a share of them below 1, got 2.5",
        ),
        (
            "record.save_steps=-1",
            "record.save_steps: must be a whole number of steps",
        ),
        (
            "record.save_total_limit=0",
            "record.save_total_limit: must be at least 1, got 0",
        ),
        ("measure=profile", "record.save_steps: no cell has a checkpoint"),
        ("stack=torch", "record.save_steps: no cell has a checkpoint"),
        ("device=cuda:0", "and not for cells on `cuda:0`"),
        ("save_steps=5", "write `--set record.save_steps=VALUE`"),
        ("save_total_limit=5", "write `--set record.save_total_limit=VALUE`"),
    ] {
        project
            .expctl(&["validate", "spec.yaml", "--set", set])
            .exits(2)
            .stderr_has(expected);
    }
    let python = project
        .expctl(&[
            "validate",
            "spec.yaml",
            "--set",
            "engine=python",
            "--set",
            "stack=torch",
        ])
        .exits(2);
    python.stderr_has("record.save_steps: checkpoints are written by our trainer on the cpu only so far, and not for cells of `engine: python`");
    python.stderr_has("spec.yaml:4:23");
    project.write("spec.yaml", ONE.replace("rank: 4", "rank: 4, save_steps: 1"));
    let moved = project.expctl(&["validate", "spec.yaml"]).exits(2);
    moved.stderr_has("write `record: {save_steps: ...}` in the spec, next to `defaults`");
}

#[test]
fn the_key_is_part_of_no_id_and_moves_no_figure() {
    let project = Project::new(ONE);
    project.run(&[]).exits(0);
    let (cell, kept) = (project.cells().remove(0), project.plan());
    let with = figures(&cell);
    assert!(!cell.join("checkpoints").exists());
    project.write(
        "spec.yaml",
        ONE.replace("record: { save_steps: 1, save_total_limit: 5 }", ""),
    );
    assert_eq!((project.plan(), project.cells()), (kept, vec![cell.clone()]));
    project.run(&["--fresh"]).exits(0);
    assert_eq!(figures(&cell), with);
}
