//! `record: {model: FOLDER}`: a model that a study trains, and that another one goes on with.

use std::fs;

use serde_json::Value;

use crate::common::project::Project;

fn spec(dtype: &str, record: &str) -> String {
    format!(
        "
name: base
defaults:
  model: tiny
  dtype: {dtype}
  rank: 0
  data: sample
  eval_fraction: 0.1
  max_seq_length: 32
  max_steps: 4
  learning_rate: 1.0e-2
record: {{ {record} }}
"
    )
}

/// The first cell's figure of a study.
fn measured(project: &Project, study: &str, figure: &str) -> Value {
    let cells = project.path("results").join(study).join("cells");
    let cell = fs::read_dir(cells).unwrap().next().unwrap().unwrap().path();
    let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();
    record["measured"][figure].clone()
}

#[test]
fn a_saved_model_has_the_loss_that_it_ended_with() {
    // All weights, or some.
    for (dtype, trainable) in [
        ("float32", ""),
        ("bfloat16", ""),
        ("float16", ""),
        ("bfloat16", "\n  trainable: [norm, '.*layers.1.*']"),
    ] {
        let project = Project::empty();
        let base = spec(dtype, "model: ../models/base").replace("rank: 0", &format!("rank: 0{trainable}"));
        project.write("specs/base.yaml", base);
        let went_on = "
name: went_on
defaults:
  model: ../models/base
  dtype: DTYPE
  rank: 2
  data: sample
  eval_fraction: 0.1
  max_seq_length: 32
  max_steps: 1
  learning_rate: 0.0
";
        project.write("specs/went_on.yaml", went_on.replace("DTYPE", dtype));
        project.expctl(&["run", "specs/base.yaml"]).exits(0);
        project.expctl(&["run", "specs/went_on.yaml"]).exits(0);
        let losses = ["base", "went_on"].map(|study| measured(&project, study, "loss_eval"));
        assert!(losses[0].is_f64() && losses[0] == losses[1], "{dtype}: {losses:?}");

        let folder = project.path("models/base");
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(files, ["config.json", "model.safetensors", "tokenizer.json"]);
        let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        assert_eq!(config["torch_dtype"], dtype);
        assert!(config.get("_source").is_none());
    }
}

#[test]
fn a_model_that_is_gone_is_trained_again() {
    let project = Project::empty();
    project.write("spec.yaml", spec("float32", "model: base"));
    let run = || project.expctl(&["run", "spec.yaml"]).exits(0).stderr;
    run();
    let weights = fs::read(project.path("base/model.safetensors")).unwrap();
    assert!(!run().contains("this cell is run again"));
    fs::remove_dir_all(project.path("base")).unwrap();
    let said = run();
    assert!(said.contains("has no model: this cell is run again"), "{said}");
    assert_eq!(fs::read(project.path("base/model.safetensors")).unwrap(), weights);
}

#[test]
fn a_folder_holds_one_model() {
    let project = Project::empty();
    let record = "model: base";
    for (more, reason) in [
        (
            "sweep: { grid: { seed: [1, 2] } }",
            "2 cells would write the same folder",
        ),
        ("sweep: { include: [{ rank: 4 }] }", "a model needs `rank: 0`"),
        (
            "sweep: { include: [{ stack: torch, data: synthetic, eval_fraction: 0 }] }",
            "is planned and trains nothing",
        ),
    ] {
        project.write("spec.yaml", spec("float32", record) + more);
        let stderr = project.expctl(&["validate", "spec.yaml"]).exits(2).stderr;
        assert!(stderr.contains(reason) && stderr.contains("spec.yaml:12:"), "{stderr}");
    }
}
