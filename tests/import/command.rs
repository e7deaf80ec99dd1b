//! What the command writes, and what it refuses.

use insta::assert_snapshot;

use crate::common::project::Project;
use crate::{AXOLOTL, with};

#[test]
fn every_key_of_a_file_is_in_the_spec_or_in_a_remark() {
    let project = with("a.yml", AXOLOTL);
    let output = project.expctl(&["import", "a.yml"]).exits(0);
    assert_snapshot!(output.stdout);
    for key in AXOLOTL
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, _)| key.trim())
    {
        let is_below = ["- path", "type"].contains(&key);
        assert!(is_below || output.stdout.contains(key), "{key}");
    }
    project.write("spec.yaml", &output.stdout);
    project.expctl(&["validate", "spec.yaml"]).exits(0);
    project.expctl(&["plan", "spec.yaml"]).exits(0);
}

#[test]
fn what_is_lost_stands_at_the_top() {
    let text = format!("{AXOLOTL}torch_compile: true\nfrobnicate: 3\nflex_attention: true\n");
    let project = with("a.yml", &text);
    let output = project.expctl(&["import", "a.yml", "--output", "s.yaml"]).exits(0);
    output.stderr_has("lost, though they change memory: flex_attention, torch_compile, frobnicate");
    let spec = project.read("s.yaml");
    let (top, _) = spec.split_once("name:").unwrap();
    assert_snapshot!(top);
}

#[test]
fn a_file_is_not_written_over() {
    let project = with("a.yml", AXOLOTL);
    project.write("s.yaml", "mine");
    let output = project.expctl(&["import", "a.yml", "--output", "s.yaml"]).exits(2);
    output.stderr_is("error: s.yaml is there already; --force writes over it\n");
    assert_eq!(project.read("s.yaml"), "mine");
    project
        .expctl(&["import", "a.yml", "--output", "s.yaml", "--force"])
        .exits(0);
    assert!(project.read("s.yaml").starts_with("# Written by"));
}

#[test]
fn mistakes_show_their_place() {
    for (name, text) in [
        ("no tool", "lr: 1\nepochs: 3\n"),
        ("broken YAML", "base_model: [a\n"),
        ("empty", ""),
        ("a list", "- a\n"),
        (
            "a wrong value",
            "base_model: tiny\ndatasets: []\nmicro_batch_size: many\n",
        ),
        ("preferences", "base_model: tiny\ndatasets: []\nrl: dpo\n"),
        ("another family", "base_model: openai/gpt-oss-20b\ndatasets: []\n"),
        (
            "no model",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 2\n",
        ),
        (
            "no training",
            "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\ntasks: [x]\n",
        ),
        (
            "contradictory keys",
            "model_name_or_path: tiny\nstage: sft\nfinetuning_type: lora\ndataset: x\nquantization_bit: 3\n",
        ),
    ] {
        let project = with("file.yml", text);
        let output = project.expctl(&["import", "file.yml"]).exits(2);
        assert_eq!(output.stdout, "", "{name}");
        assert_snapshot!(name.replace(' ', "_"), output.stderr);
    }
}

#[test]
fn a_command_is_read_from_a_script_or_from_words() {
    let words = "trl sft --model_name_or_path Qwen/Qwen3-0.6B --use_peft --load_in_4bit --lora_r 32 --max_length 2048 \
                 --lora_target_modules all-linear --per_device_train_batch_size 1 --dtype bfloat16";
    let project = with(
        "train.sh",
        &format!(
            "#!/bin/sh\n# QLoRA\n{}\n",
            words.replace(" --lora_r", " \\\n  --lora_r")
        ),
    );
    let of_script = project.expctl(&["import", "train.sh"]).exits(0).stdout;
    let mut arguments = vec!["import", "--"];
    arguments.extend(words.split_whitespace());
    let of_words = project.expctl(&arguments).exits(0).stdout;
    assert_eq!(of_script.replace("name: train", "name: imported"), of_words);
    assert_snapshot!(of_words);
}

#[test]
fn a_file_that_a_key_names_is_taken_over() {
    let project = Project::empty();
    project.write(
        "conf/ds.json",
        r#"{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}"#,
    );
    let keys = "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\nfinetuning_type: full\ndataset: x\nbf16: true\n";
    project.write("train.yaml", format!("{keys}deepspeed: conf/ds.json\n"));
    let output = project
        .expctl(&["import", "train.yaml", "--output", "s.yaml", "--processes", "4"])
        .exits(0);
    output.stderr_has("no key that changes memory is lost");
    let spec = project.read("s.yaml");
    assert!(
        spec.contains("deepspeed_config: conf/ds.json") && spec.contains("world_size: 4"),
        "{spec}"
    );
    project.expctl(&["plan", "s.yaml"]).exits(0);
    project.write("train.yaml", format!("{keys}deepspeed: nowhere.json\n"));
    let output = project
        .expctl(&["import", "train.yaml", "--output", "s.yaml", "--force"])
        .exits(0);
    output.stderr_has("lost, though they change memory: deepspeed");
}

#[test]
fn files_of_accelerate_and_deepspeed_are_taken_whole() {
    let project = Project::empty();
    project.write("acc.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 2\nmixed_precision: bf16\nfsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n");
    project.write(
        "ds.json",
        r#"{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": "auto"}"#,
    );
    for (file, key) in [
        ("acc.yaml", "accelerate_config: acc.yaml"),
        ("ds.json", "deepspeed_config: ds.json"),
    ] {
        let arguments = [
            "import",
            file,
            "--model",
            "smollm2-135m",
            "--output",
            "s.yaml",
            "--force",
        ];
        project.expctl(&arguments).exits(0);
        let spec = project.read("s.yaml");
        assert!(spec.contains(key), "{spec}");
        project.expctl(&["validate", "s.yaml"]).exits(0);
        project.expctl(&["plan", "s.yaml"]).exits(0);
    }
}

#[test]
fn other_commands_offer_the_import() {
    let project = with("a.yml", AXOLOTL);
    for command in ["plan", "fit", "validate", "run"] {
        let output = project.expctl(&[command, "a.yml"]).exits(2);
        output.stderr_has("not a spec: a configuration of axolotl: it has `base_model` and `datasets`");
        output.stderr_has("`expctl import a.yml` writes the spec that it comes to");
    }
    let at_once = project
        .expctl(&["plan", "a.yml", "--import", "--format", "json"])
        .exits(0);
    at_once.stderr_has("note: a.yml: a configuration of axolotl");
    project.expctl(&["import", "a.yml", "--output", "s.yaml"]).exits(0);
    let planned = project.expctl(&["plan", "s.yaml", "--format", "json"]).exits(0);
    let rows = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(
        rows(&at_once.stdout)[0]["predicted_peak_bytes"],
        rows(&planned.stdout)[0]["predicted_peak_bytes"]
    );
    project.expctl(&["plan", "--import"]).exits(2);
}

#[test]
fn a_key_of_another_tool_in_a_spec_is_answered() {
    for (key, help) in [
        ("cut_cross_entropy: true", "cut_cross_entropy"),
        ("dp_shard_size: 4", "world_size: 4"),
        (
            "liger_rms_norm: true",
            "Liger's other kernels than its loss are not planned",
        ),
        ("disable_gradient_checkpointing: true", "none"),
        ("enable_activation_checkpointing: true", "gradient_checkpointing: full"),
        (
            "preprocessing_batch_size: 8",
            "leave it out: samples of max_seq_length tokens are planned",
        ),
    ] {
        for text in [format!("name: x\n{key}\n"), format!("name: x\ndefaults:\n  {key}\n")] {
            let output = with("s.yaml", &text).expctl(&["validate", "s.yaml"]).exits(2);
            output.stderr_has(help);
            assert!(!output.stderr.contains("did you mean"), "{key}: {output}");
        }
    }
}
