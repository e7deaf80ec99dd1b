//! `data: {forgetting_path: ...}`: the loss on other texts, before the training and after it.

use serde_json::Value;

use crate::common::project::Project;

const SPEC: &str = "
name: forgetting
defaults:
  model: tiny
  dtype: float32
  data: { path: train.jsonl, column: words, forgetting_path: known.txt }
  eval_fraction: 0.2
  max_seq_length: 32
  batch_size: 2
  max_steps: 6
sweep: { include: [{ rank: 4 }, { learning_rate: 1.0e-2, rank: 4 }, { learning_rate: 1.0e-2, rank: 0 }, { adapter: prompt_tuning }, { adapter: prefix_tuning }] }
report: { template: comparison }
";

#[test]
fn what_is_forgotten_is_the_rise_of_the_loss() {
    let project = Project::new(&SPEC.replace("[{ rank: 4 }", "[{ learning_rate: 0.0, rank: 4 }"));
    let lines: String = (0..20)
        .map(|number| format!("{{\"words\": \"word number {number} is a cork and floats\"}}\n"))
        .collect();
    project.write("train.jsonl", lines);
    let sample = include_str!("../../crates/data/embedded/sample.txt");
    let known: Vec<&str> = sample.split("\n\n").take(7).collect();
    project.write("known.txt", known.join("\n\n"));
    project.expctl(&["run", "spec.yaml", "--progress", "none"]).exits(0);

    let cells = project
        .expctl(&["list", "results/forgetting", "--format", "json"])
        .exits(0)
        .json();
    let ids = cells
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["cell_id"].as_str().unwrap());
    let records: Vec<Value> = ids
        .map(|id| project.expctl(&["show", id, "--format", "json"]).exits(0).json())
        .collect();
    let losses: Vec<[f64; 2]> = records
        .iter()
        .map(|record| {
            let forgetting = &record["record"]["measured"]["forgetting"];
            ["before", "after"].map(|name| forgetting[name].as_f64().unwrap())
        })
        .collect();
    let [[before, after], trained @ ..] = &losses[..] else {
        panic!("{losses:?}")
    };
    assert_eq!(before, after, "nothing was trained");
    for [start, end] in trained {
        assert_eq!(start, before, "the loss before is the base's: {losses:?}");
        assert_ne!(end, before, "{losses:?}");
    }
    // It shows in no other figure, and a plan does not need it.
    for record in &records {
        let (measured, predicted) = (&record["record"]["measured"], &record["prediction"]);
        assert!(measured["loss_eval"].is_f64());
        assert_eq!(
            measured["allocated_peak_bytes"], predicted["allocated_peak_bytes"],
            "{predicted}"
        );
    }
    let report = project.read("results/forgetting/report.md");
    assert!(report.contains("| Forgetting |"), "{report}");
}

/// The texts are as long as the model takes and the samples short, so that their losses need far more memory than a step.
#[test]
fn the_losses_are_no_part_of_the_measured_memory() {
    let project = Project::new(
        "
name: memory
defaults: { model: tiny, rank: 4, max_seq_length: 512, batch_size: 16, max_steps: 4 }
sweep:
  include:
    - data: { path: short.jsonl }
    - data: { path: short.jsonl, forgetting_path: long.txt }
",
    );
    project.write("short.jsonl", "{\"text\": \"a cork floats\"}\n".repeat(64));
    let texts = ["one of many words ", "another line of words "].map(|words| words.repeat(400));
    project.write("long.txt", vec![texts.join("\n\n"); 16].join("\n\n"));
    project.expctl(&["run", "spec.yaml", "--progress", "none"]).exits(0);
    let cells = ["list", "results/memory", "--format", "json"];
    let cells = project.expctl(&cells).exits(0).json();
    let measured = |index: usize| {
        let id = cells[index]["cell_id"].as_str().unwrap();
        let record = project.expctl(&["show", id, "--format", "json"]).exits(0).json();
        let mut measured = record["record"]["measured"].clone();
        measured["allocated_peak_by_category"]["host"].take();
        measured
    };
    let [without, with] = [measured(0), measured(1)];
    assert!(without["forgetting"].is_null() && !with["forgetting"].is_null());
    // The lengths of the other samples stay in the host's memory.
    let exact = |name: &&String| name.contains("allocated") && !name.contains("host");
    let names: Vec<&String> = without.as_object().unwrap().keys().filter(exact).collect();
    assert!(names.len() > 2, "{names:?}");
    for name in names {
        assert_eq!(without[name], with[name], "{name}");
    }
    for name in ["reserved_peak_bytes", "process_peak_bytes", "process_peak_total_bytes"] {
        let [without, with] = [&without, &with].map(|measured| measured[name].as_f64().unwrap());
        assert!(
            (with - without).abs() < f64::from(8 << 20),
            "{name}: {without} and {with}"
        );
    }
}

#[test]
fn forgetting_needs_texts_of_its_own_and_no_labels() {
    let project = Project::empty();
    project.write("train.jsonl", "{\"text\": \"a b c d e f\", \"label\": 1}\n".repeat(8));
    let refused = |data: &str, task: &str, message: &str| {
        let model = if task.is_empty() { "model: tiny, " } else { "" };
        let spec = format!("name: x\ndefaults: {{{model}max_seq_length: 16, data: {data}{task}}}\n");
        project.write("x.yaml", spec);
        project.expctl(&["run", "x.yaml"]).exits(2).stderr_has(message);
    };
    refused(
        "{path: train.jsonl, forgetting_path: train.jsonl}",
        "",
        "`data.forgetting_path: train.jsonl`",
    );
    refused(
        "{path: train.jsonl, forgetting_path: nowhere.txt}",
        "",
        "nowhere.txt: No such file",
    );
    refused(
        "{path: train.jsonl, forgetting_path: known.xyz}",
        "",
        "does not say what the file is",
    );
    refused(
        "{path: train.jsonl, forgetting_path: known.txt}",
        ", model: distilbert-base, task: sequence_classification",
        "a classifier's head begins random",
    );
}
