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
        (
            &["--model", "tiny", "--gpu", "4091"],
            "neither a size, such as 6GiB, nor a known GPU",
        ),
        (&["--model", "tiny", "--gpu", "mi300x"], "NVIDIA's GPUs alone"),
        (&["--model", "tiny", "--recipe", "qlorra"], "did you mean `qlora`?"),
        (
            &["--model", "tiny", "--seq-len", "64"],
            "write `--set max_seq_length=64`",
        ),
        (&["--model", "tiny", "--lora-r", "64"], "write `--set rank=64`"),
        (&["--model", "tiny", "r=64"], "--set rank=64"),
        (&["llama-3.1-8b"], "--model llama-3.1-8b"),
        (&["--model", "mixtral-8x7b"], "a mixture of experts is not planned"),
        (
            &["--model", "tiny", "--set", "num_gpus=2"],
            "write `--set world_size=2`",
        ),
        (&["--model", "tiny", "--qlora"], "write `--recipe qlora`"),
        (&["--model", "tiny", "--load-in-4bit"], "write `--set dtype=int4`"),
        (
            &["--model", "tiny", "--context=4096"],
            "write `--set max_seq_length=4096`",
        ),
        (
            &["--model", "tiny", "--deepspeed", "ds.json"],
            "write `--set deepspeed_config=ds.json`",
        ),
        (&["--model", "tiny", "--vram", "24GB"], "write `--gpu 24GB`"),
        (&["--model", "tiny", "--gpus", "2"], "write `--set world_size=2`"),
        (&["--model", "tiny", "--model_name_or_path", "x"], "write `--model x`"),
        (&["--model", "tiny", "--set", "bs=4"], "write `--set batch_size=4`"),
        (
            &["--model", "tiny", "--set", "attn=flash"],
            "write `--set attn_implementation=flash_attention_2`",
        ),
        (
            &["--model", "tiny", "--set", "lora_target=all"],
            "write `--set target_modules=all-linear`",
        ),
        (
            &["--model", "tiny", "--set", "use_liger_kernel=true"],
            "write `--set loss=liger`",
        ),
        (&[], "give a spec, or a model by name"),
    ] {
        let output = Project::empty().expctl(&[&["plan"], arguments].concat());
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains(help), "{arguments:?}: {output}");
    }
}

/// A value from an option is shown as it was given: nobody knows a line of the recipe.
#[test]
fn errors_name_the_option() {
    for (arguments, shown) in [
        (
            "--model llama3",
            &[
                "error: model: `llama3` is not a preset\n",
                "--> --model llama3\n",
                "write the size, too: `llama-3.2-1b`",
            ][..],
        ),
        (
            "--model llama-3.1-8b --gpu t4 --set attn_implementation=flash_attention_2",
            &[
                "error: attn_implementation: FlashAttention-2 needs Ampere",
                "--> --set attn_implementation=flash_attention_2\n",
                "::: --gpu t4\n",
                "use `--set attn_implementation=sdpa`",
            ],
        ),
        (
            "--model llama-3.1-8b --gpu 4090 --set packing=true",
            &[
                "--> --set packing=true\n",
                "::: --recipe qlora (attn_implementation: sdpa)\n",
                "use `--set attn_implementation=flash_attention_2`, or `--set torch.packing_strategy=wrapped`",
            ],
        ),
        (
            "--model llama-3.1-8b --gpu 4090 --set stack=candle",
            &[
                "`--set stack=candle`",
                "write `--stack candle`, which starts from our trainer's defaults",
            ],
        ),
        (
            "--model tiny --set rnak=1 --set batch_size=0",
            &[
                "--> --set rnak=1\n",
                "batch_size: must be at least 1",
                "2 mistakes in the command line",
            ],
        ),
        (
            "--model tiny --set data={path: x, colum: y}",
            &["--set data={path: x, colum: y}", "did you mean `column`?"],
        ),
    ] {
        // A setting with spaces is one argument.
        let (options, setting) = arguments.split_once(" --set data=").unwrap_or((arguments, ""));
        let mut arguments: Vec<String> = options.split(' ').map(str::to_owned).collect();
        if !setting.is_empty() {
            arguments.extend(["--set".into(), format!("data={setting}")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = Project::empty().expctl(&[&["plan"], arguments.as_slice()].concat());
        assert_eq!(output.code, 2, "{output}");
        for part in shown {
            assert!(output.stderr.contains(part), "{part}: {output}");
        }
        for part in [":1:1", "defaults.", "leave the key out"] {
            assert!(!output.stderr.contains(part), "{part}: {output}");
        }
    }
}

/// What of a recipe the model or the GPU cannot have gives way, and a note says so.
#[test]
fn a_recipe_gives_way() {
    for (arguments, key, note) in [
        (
            "--model llama-3.1-8b --gpu t4 --recipe axolotl",
            "attn_implementation=sdpa",
            "note: --recipe axolotl: `attn_implementation: sdpa` in place of flash_attention_2, which needs Ampere",
        ),
        (
            "--model gemma-2-9b --gpu t4 --recipe axolotl",
            "attn_implementation=eager",
            "`attn_implementation: eager` in place of flash_attention_2",
        ),
        (
            "--model phi-3-mini --gpu 4090 --recipe trl-sft",
            "target_modules=all-linear",
            "`target_modules: all-linear`, as phi-3-mini has no q_proj and no v_proj",
        ),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = Project::empty().expctl(&[&["plan", "--no-replay"], arguments.as_slice()].concat());
        assert!(matches!(output.code, 0 | 3), "{output}");
        assert!(output.stdout.contains(key) && output.stdout.contains(note), "{output}");
    }
    // What is set is not the recipe's.
    let set = "plan --model llama-3.1-8b --gpu 4090 --recipe axolotl --set attn_implementation=sdpa --no-replay";
    let output = Project::empty().expctl(&set.split(' ').collect::<Vec<_>>());
    assert!(!output.stdout.contains("in place of"), "{output}");
}
