//! Adapters that a study trains: another one goes on with them, and `expctl merge` writes them into the model.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::project::Project;

/// A study of one cell on text.
fn study(name: &str, model: &str, keys: &str) -> String {
    format!(
        "
name: {name}
defaults:
  model: {model}
  dtype: float32
  data: sample
  eval_fraction: 0.1
  max_seq_length: 32
{keys}
"
    )
}

/// The folder of the study's cell.
fn cell(project: &Project, study: &str) -> PathBuf {
    let cells = project.path("results").join(study).join("cells");
    fs::read_dir(cells).unwrap().next().unwrap().unwrap().path()
}

fn record(project: &Project, study: &str) -> Value {
    serde_json::from_slice(&fs::read(cell(project, study).join("record.json")).unwrap()).unwrap()
}

/// A project with a model that was trained a little.
fn project() -> Project {
    let project = Project::empty();
    let base = study(
        "base",
        "tiny",
        "  rank: 0\n  max_steps: 2\nrecord: { model: ../models/base }",
    );
    project.write("specs/base.yaml", base);
    project.expctl(&["run", "specs/base.yaml"]).exits(0);
    project
}

#[test]
fn an_adapter_is_gone_on_with_and_merged() {
    let project = project();
    for (at, keys) in [
        "  rank: 4\n  lora: { use_rslora: true, rank_pattern: { q_proj: 2 } }",
        "  rank: 4\n  adapter: dora",
        "  rank: 4\n  lora: { init_lora_weights: pissa }\n  modules_to_save: [embed_tokens, input_layernorm]",
        "  rank: 4\n  target_modules: '.*\\.1\\.mlp\\..*'\n  modules_to_save: [lm_head]",
    ]
    .into_iter()
    .enumerate()
    {
        let [first, second, merged] = ["first", "second", "merged"].map(|name| format!("{name}{at}"));
        let run = |name: &str, model: &str, keys: &str| {
            let path = format!("specs/{name}.yaml");
            project.write(&path, study(name, model, keys));
            project.expctl(&["run", &path]).exits(0);
            record(&project, name)
        };
        let ended = run(
            &first,
            "../models/base",
            &format!("{keys}\n  max_steps: 4\n  learning_rate: 1.0e-2"),
        );
        let adapter = cell(&project, &first).join("adapter");
        let path = adapter.display();
        let still = "  max_steps: 1\n  learning_rate: 0.0";
        let went_on = run(
            &second,
            "../models/base",
            &format!("{keys}\n  init_adapter: {path}\n{still}"),
        );
        let loss = |record: &Value| record["measured"]["loss_eval"].as_f64().unwrap();
        assert_eq!(loss(&went_on), loss(&ended), "{keys}");
        let hash = went_on["provenance"]["init_adapter_sha256"].as_str().unwrap();
        assert_eq!((hash.len(), ended["provenance"].get("init_adapter_sha256")), (64, None));
        let weights = |folder: PathBuf| fs::read(folder.join("adapter_model.safetensors")).unwrap();
        assert!(
            weights(adapter.clone()) == weights(cell(&project, &second).join("adapter")),
            "{keys}"
        );

        let output = format!("models/{merged}");
        let model = ["--model", "models/base"];
        let arguments = [
            &["merge", adapter.to_str().unwrap()][..],
            &model,
            &["--output", &output],
        ]
        .concat();
        let output = project.expctl(&arguments).exits(0);
        output.stdout_has("wrote models/merged");
        let same = run(&merged, &format!("../models/{merged}"), &format!("  rank: 1\n{still}"));
        let (merged, ended) = (loss(&same), loss(&ended));
        assert!((merged / ended - 1.0).abs() < 1e-5, "{keys}: {merged} merged, {ended}");
    }
}

#[test]
fn another_adapter_is_a_mistake() {
    let project = project();
    project.write(
        "specs/first.yaml",
        study("first", "../models/base", "  rank: 4\n  max_steps: 1"),
    );
    project.expctl(&["run", "specs/first.yaml"]).exits(0);
    let adapter = cell(&project, "first").join("adapter");
    let mistake = |keys: &str, path: &str| {
        let keys = format!("  init_adapter: {path}\n  max_steps: 1\n{keys}");
        project.write("specs/second.yaml", study("second", "../models/base", &keys));
        project.expctl(&["run", "specs/second.yaml"])
    };
    let path = adapter.to_str().unwrap();
    for (keys, expected) in [
        ("  rank: 8", "`r` is 4, and the cell's `rank` is 8"),
        (
            "  rank: 4\n  lora_alpha: 3",
            "`lora_alpha` is 8, and the cell's `lora_alpha` is 3",
        ),
        (
            "  rank: 4\n  adapter: dora",
            "`peft_type` is lora, and the cell's `adapter` is dora",
        ),
        (
            "  rank: 4\n  lora: { use_rslora: true }",
            "`use_rslora` is false, and the cell's `lora.use_rslora` is true",
        ),
    ] {
        mistake(keys, path)
            .exits(2)
            .stderr_has(expected)
            .stderr_has("`init_adapter: ");
    }
    mistake("  rank: 4", "nowhere")
        .exits(2)
        .stderr_has("nowhere/adapter_config.json");
    // The modules are those of the tensors.
    let fewer = mistake("  rank: 4\n  target_modules: [q_proj]", path).exits(1);
    fewer.stderr_has("the cell does not train it");

    let output = ["--output", "models/merged"];
    let merge = |arguments: &[&str]| project.expctl(&[&["merge"], arguments, &output].concat());
    merge(&[path])
        .exits(2)
        .stderr_has("is not a folder here; name its folder with --model");
    merge(&["specs"]).exits(2).stderr_has("specs/adapter_config.json");
    merge(&[path, "--model", "specs"])
        .exits(2)
        .stderr_has("cannot read specs/config.json");
    project.write("models/merged/README.md", "mine");
    merge(&[path, "--model", "models/base"])
        .exits(2)
        .stderr_has("models/merged is there already");
}
