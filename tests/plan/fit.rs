//! `expctl fit`: what to change so that a cell fits.

use serde_json::Value;

use crate::common::project::{Output, Project};

const SPEC: &str = "name: x\ndefaults: { model: tiny, dtype: float32, rank: 8, batch_size: 4, max_seq_length: 128, \
                    max_steps: 2, instruction_set: avx2 }\n";
const TORCH: &str = "name: x\ndefaults: { model: smollm2-360m, stack: torch, dtype: bfloat16, batch_size: 8, \
                     max_seq_length: 1024, torch: { keep_outputs: none } }\n";

impl Project {
    /// `expctl fit spec.yaml` with these arguments.
    fn fit(&self, arguments: &[&str]) -> Output {
        self.expctl(&[&["fit", "spec.yaml"], arguments].concat())
    }
}

#[test]
fn the_least_change_comes_first() {
    insta::assert_snapshot!("fit_ours", Project::new(SPEC).fit(&["--budget", "2200KiB"]));
    insta::assert_snapshot!("fit_torch", Project::new(TORCH).fit(&["--budget", "t4"]));
    let fits = Project::new(SPEC).fit(&["--budget", "1GiB"]).exits(0);
    fits.stdout_has("fits into 1.00 GiB");
}

#[test]
fn a_model_by_name_starts_with_nothing_saved() {
    let output = Project::empty().expctl(&[
        "fit",
        "--model",
        "qwen2.5-0.5b",
        "--gpu",
        "rtx-2060-6gb",
        "--format",
        "json",
    ]);
    let [cell] = output.json().as_array().unwrap().clone().try_into().unwrap();
    let front = cell["front"].as_array().unwrap();
    assert_eq!(front[0]["changes"], Value::Object(serde_json::Map::new()));
    let needed: Vec<u64> = front
        .iter()
        .map(|row| row["predicted_needed_bytes"].as_u64().unwrap())
        .collect();
    assert!(needed.is_sorted_by(|a, b| a > b), "{needed:?}");
    assert_eq!(cell["least"]["predicted_verdict"], "fits");
    assert_eq!(cell["least"]["changes"]["gradient_accumulation_steps"], 16);
    assert!(cell["planned"].as_f64().unwrap() < cell["combinations"].as_f64().unwrap() / 10.0);
}

#[test]
fn keys_stay_and_vary_as_they_are_told() {
    let project = Project::new(SPEC);
    let kept = project.fit(&[
        "--budget",
        "4MiB",
        "--keep",
        "batch_size,gradient_checkpointing",
        "--format",
        "json",
    ]);
    assert_eq!(
        kept.json()[0]["least"]["changes"],
        serde_json::json!({ "dtype": "bfloat16" })
    );
    let only = [
        "--budget",
        "4MiB",
        "--vary",
        "rank=6,4",
        "--vary",
        "max_seq_length",
        "--format",
        "json",
    ];
    let only = project.fit(&only).json();
    assert_eq!(only[0]["least"]["changes"], serde_json::json!({ "max_seq_length": 96 }));
    let section = format!("{SPEC}fit: {{ budget: 4MiB, keep: [batch_size], vary: {{ gradient_checkpointing: }} }}\n");
    let in_spec = Project::new(&section).fit(&["--format", "json"]).json();
    let changes = in_spec[0]["least"]["changes"].as_object().unwrap();
    assert_eq!(changes.keys().collect::<Vec<_>>(), ["gradient_checkpointing"]);
}

#[test]
fn what_was_found_is_a_spec_that_fits() {
    let project = Project::new(SPEC);
    let written = ["--budget", "2200KiB", "--write", "fit.yaml", "--chart", "fit.svg"];
    project.fit(&written).exits(0).stderr_has("wrote fit.yaml");
    let plan = project.expctl(&["plan", "fit.yaml", "--budget", "2200KiB"]).exits(0);
    plan.stdout_has("1 cell, all of which fit");
    let chart = project.read("fit.svg");
    assert!(
        chart.contains("as it is") && chart.contains("budget") && chart.contains("batch_size: 2"),
        "{chart}"
    );
}

#[test]
fn limits_are_found() {
    let project = Project::new(SPEC);
    let largest = ["--budget", "8MiB", "--largest", "batch_size,max_seq_length,rank"];
    insta::assert_snapshot!("fit_largest", project.fit(&largest));
    insta::assert_snapshot!(
        "fit_smallest_gpu",
        Project::new(TORCH).fit(&["--smallest-gpu", "--format", "csv"])
    );
    project
        .fit(&["--smallest-gpu"])
        .exits(2)
        .stderr_has("of our own trainer");
}

#[test]
fn what_cannot_be_searched_is_an_error() {
    let project = Project::new(SPEC);
    let impossible = project.fit(&["--budget", "10KiB"]).exits(1);
    impossible.stdout_has("no change that may be made makes it fit");
    project.fit(&[]).exits(0).stdout_has("there is no budget");
    project
        .fit(&["--largest", "rank"])
        .exits(2)
        .stderr_has("there is no budget");
    let everything = "attn_implementation,batch_size,gradient_checkpointing,dtype,rank,target_modules,max_seq_length";
    project
        .fit(&["--keep", everything])
        .exits(2)
        .stderr_has("nothing may change");
    project
        .fit(&["--budget", "rtx-3900"])
        .exits(2)
        .stderr_has("did you mean `rtx-3090`?");
    project
        .fit(&["--keep", "seed"])
        .exits(2)
        .stderr_has("is not a key that saves memory");
    project
        .fit(&["--vary", "rnak"])
        .exits(2)
        .stderr_has("did you mean `rank`?");
    project
        .fit(&["--vary", "rank=many"])
        .exits(2)
        .stderr_has("fit.vary.rank");
    project
        .fit(&["--vary", "gradient_accumulation_steps=2"])
        .exits(2)
        .stderr_has("follows `batch_size`");
    project
        .fit(&["--vary", "rank", "--keep", "rank"])
        .exits(2)
        .stderr_has("is to change and to stay");
    project
        .fit(&["--cell", "nothing"])
        .exits(2)
        .stderr_has("has no cell `nothing`");
    Project::empty()
        .expctl(&["fit"])
        .exits(2)
        .stderr_has("give a spec, or a model by name");
}
