//! `expctl plan --model`: a plan without a spec.

use serde_json::Value;

use crate::common::project::{Output, Project};

const NAMES: [&str; 5] = ["plan", "--model", "smollm2-135m", "--gpu", "t4"];

fn plan(arguments: &[&str]) -> Output {
    Project::empty().expctl(&[&NAMES, arguments].concat())
}

#[test]
fn a_plan_of_names_says_what_was_planned() {
    insta::assert_snapshot!("names", plan(&["--set", "rank=8"]));
    let ours = Project::empty().expctl(&[
        "plan",
        "--model",
        "tiny",
        "--stack",
        "candle",
        "--set",
        "instruction_set=avx2",
    ]);
    insta::assert_snapshot!("names_ours", ours);
}

#[test]
fn programs_read_the_configuration_too() {
    let cells: Vec<Value> = serde_json::from_value(plan(&["--format", "json"]).json()).unwrap();
    let [cell] = cells.as_slice() else { panic!("{cells:?}") };
    assert_eq!(
        (&cell["model"], &cell["gpu"], &cell["stack"], &cell["autocast"]),
        (&"smollm2-135m".into(), &"t4".into(), &"torch".into(), &"float16".into())
    );
    assert!(cell["predicted_reserved_peak_bytes"].is_u64());
}

#[test]
fn a_spec_with_the_same_keys_has_the_same_cell() {
    let names = plan(&["--format", "json"]).json();
    let spec = "name: x\ndefaults: { model: smollm2-135m, stack: torch, gpu: t4, batch_size: 1, max_seq_length: 1024, \
                gradient_accumulation_steps: 16, padding: longest, seed: 42, num_train_epochs: 1, gradient_checkpointing: full, autocast: float16, optim: \
                adamw_torch_fused, bnb_4bit_compute_dtype: float16, torch: { keep_outputs: none } }\n";
    let output = Project::new(spec).expctl(&["plan", "spec.yaml", "--format", "json"]);
    assert_eq!(names[0]["cell_id"], output.json()[0]["cell_id"]);
}

#[test]
fn names_have_a_report() {
    let project = Project::empty();
    let report = [&NAMES[..], &["--report=plan.md"]].concat();
    project.expctl(&report).exits(0).stdout_has("wrote plan.md");
    let text = project.read("plan.md");
    assert!(
        text.contains("expctl plan --model=smollm2-135m --gpu=t4 --report=plan.md"),
        "{text}"
    );
    assert!(text.contains("gradient_checkpointing"), "{text}");
    let check = [&report[..], &["--check"]].concat();
    project
        .expctl(&check)
        .exits(0)
        .stdout_has("up to date with --model=smollm2-135m --gpu=t4");
    let nowhere = [&NAMES[..], &["--report"]].concat();
    project.expctl(&nowhere).exits(2).stderr_has("--report=FILE");
}

#[test]
fn the_data_can_be_named_too() {
    let cell = |arguments: &[&str]| {
        let output = Project::empty().expctl(
            &[
                &["plan", "--model", "tiny", "--stack", "candle", "--format", "json"],
                arguments,
            ]
            .concat(),
        );
        output.exits(0).json()[0].clone()
    };
    let named = cell(&["--data", "sample"]);
    assert_eq!(named["cell_id"], cell(&["--set", "data=sample"])["cell_id"]);
    assert_ne!(named["cell_id"], cell(&[])["cell_id"]);
}

#[test]
fn wrong_names_are_errors() {
    for (arguments, help) in [
        (
            &["--model", "qwen2.5-7", "--gpu", "t4"][..],
            "did you mean `qwen2.5-7b`?",
        ),
        (&["--model", "tiny", "--gpu", "rtx-3900"], "did you mean `rtx-3090`?"),
        (
            &["--model", "./nothing", "--gpu", "t4"],
            "neither a preset nor a directory",
        ),
        (&["--model", "tiny", "--set", "rnk=2"], "did you mean `rank`?"),
        (
            &["--model", "tiny", "spec.yaml"],
            "a spec and --model exclude each other",
        ),
        (&["--stack", "torch", "spec.yaml"], "--set stack=STACK"),
        (&["--model", "tiny", "--stack", "torhc"], "torch"),
        (
            &["--model", "tiny", "--stack", "candle", "--gpu", "t4"],
            "`t4` is a GPU, and --stack candle is our trainer",
        ),
        (&["--data", "sample", "spec.yaml"], "--data goes with --model"),
        (&["--model", "tiny", "--data", "smaple"], "did you mean `sample`?"),
        (&["--model", "tiny", "--gpu", "4091"], "a size has a unit"),
        (&["--model", "tiny", "--gpu", "mi300x"], "NVIDIA's GPUs alone"),
        (&["--model", "tiny", "--recipe", "qlorra"], "did you mean `qlora`?"),
        (&["--model", "tiny", "--seq-len", "64"], "--set max_seq_length=VALUE"),
        (&["--model", "tiny", "--lora-r", "64"], "--set rank=VALUE"),
        (&["--model", "tiny", "r=64"], "--set rank=64"),
        (&["llama-3.1-8b"], "--model llama-3.1-8b"),
        (&["--model", "mixtral-8x7b"], "a mixture of experts is not planned"),
        (
            &["--model", "tiny", "--set", "num_gpus=2"],
            "did you mean `world_size`?",
        ),
        (&[], "give a spec, or a model by name"),
    ] {
        let output = Project::empty().expctl(&[&["plan"], arguments].concat());
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains(help), "{arguments:?}: {output}");
    }
}
