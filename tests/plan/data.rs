//! Plans from a user's own data: lengths from its tokenizer, batches in the order of transformers' Trainer.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::project::Project;

/// A batch of `sampler_order.json`.
type Batch = Vec<usize>;

const SPEC: &str = "\
name: own
defaults: { stack: torch, model: ./model, gpu: t4, batch_size: 2, gradient_accumulation_steps: 2, num_train_epochs: 2,
            padding: longest, max_seq_length: 64, seed: 42, data: { path: texts.jsonl } }
";

fn golden() -> Value {
    fixture("sampler_order.json")
}

fn fixture(name: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("tests/fixtures/torch_abstract").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A text of this many tokens: the tokenizer merges no such letters.
fn text(tokens: usize) -> String {
    "q".repeat(tokens)
}

/// A model without weights, and samples of these lengths.
fn project(spec: &str, lengths: &[usize]) -> Project {
    let project = Project::new(spec);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, from) in [
        ("config.json", "crates/arch/src/presets/tiny.json"),
        ("tokenizer.json", "crates/data/embedded/tokenizer.json"),
    ] {
        project.write(format!("model/{file}"), fs::read(root.join(from)).unwrap());
    }
    let lines = lengths
        .iter()
        .map(|&tokens| json!({ "text": text(tokens) }).to_string() + "\n");
    project.write("texts.jsonl", lines.collect::<String>());
    project
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

#[test]
fn permutations_are_those_of_torch() {
    for expected in golden()["permutations"].as_array().unwrap() {
        let count = number(&expected["count"]);
        let order = expctl::torch::epoch_order(expected["seed"].as_u64().unwrap(), 0, count);
        let numbers = |name: &str| -> Vec<u32> { serde_json::from_value(expected[name].clone()).unwrap() };
        assert!(
            order.starts_with(&numbers("first")) && order.ends_with(&numbers("last")),
            "{expected}"
        );
        let weighted: u64 = (1..)
            .zip(&order)
            .map(|(place, &sample)| place * u64::from(sample))
            .sum();
        assert_eq!(expected["weighted"], weighted);
    }
}

/// Each sample has a length of its own, so that the worst batch tells which samples are in it.
#[test]
fn batches_are_those_that_the_trainer_takes() {
    for run in golden()["runs"].as_array().unwrap() {
        let samples = number(&run["samples"]);
        let lengths: Vec<usize> = (0..samples).map(|sample| 5 + 3 * sample).collect();
        let project = project(SPEC, &lengths);
        let mut settings = vec![
            format!("batch_size={}", run["batch_size"]),
            format!("gradient_accumulation_steps={}", run["accumulation"]),
            format!("seed={}", run["seed"]),
            format!("num_train_epochs={}", run["epochs"]),
        ];
        if !run["max_steps"].is_null() {
            settings.push(format!("max_steps={}", run["max_steps"]));
        }
        let arguments: Vec<&str> = settings
            .iter()
            .flat_map(|setting| ["--set", setting.as_str()])
            .collect();
        let cell = &project.planned(&arguments)[0];
        assert_eq!(cell["predicted_training_steps"], run["steps"], "{run}");
        let batches: Vec<Batch> = serde_json::from_value(run["micro_batches"].clone()).unwrap();
        let named: Vec<usize> = cell["predicted_worst_batch_samples"]
            .as_str()
            .unwrap()
            .split(", ")
            .map(|number| number.parse::<usize>().unwrap() - 1)
            .collect();
        assert!(batches.contains(&named), "{named:?} is not one of {batches:?}");
        let tokens = |batch: &Batch| batch.len() * lengths[*batch.iter().max().unwrap()].min(64);
        // Smaller batches may take more memory: those after a step's first have gradients to add to, and those after the
        // first step the optimizer's state.
        let (accumulation, an_epoch) = (
            number(&run["accumulation"]),
            samples.div_ceil(number(&run["batch_size"])),
        );
        let is_later = |index: usize| !(index % an_epoch).is_multiple_of(accumulation);
        let largest = |counts: &dyn Fn(usize) -> bool| {
            let counted = (0..).zip(&batches).filter(|&(index, _)| counts(index));
            counted.map(|(_, batch)| tokens(batch)).max()
        };
        let largest = [
            largest(&|_| true),
            largest(&is_later),
            largest(&|index| index >= accumulation),
            largest(&|index| index >= accumulation && is_later(index)),
        ];
        assert!(largest.contains(&Some(tokens(&named))), "{named:?}: {largest:?}");
    }
}

#[test]
fn the_worst_batch_is_named_with_its_step_and_samples() {
    let lengths: Vec<usize> = (0..40)
        .map(|sample| if sample == 23 { 61 } else { 4 + sample % 7 })
        .collect();
    let project = project(SPEC, &lengths);
    let output = project.plan(&[]);
    insta::assert_snapshot!("own_data", output);
    let cell = &project.planned(&[])[0];
    assert_eq!(
        (
            number(&cell["predicted_worst_batch_size"]),
            number(&cell["predicted_worst_batch_tokens"])
        ),
        (2, 61)
    );
    // Without the long sample the plan is smaller by what this batch takes.
    let mut shorter = lengths;
    shorter[23] = 10;
    project.write(
        "texts.jsonl",
        shorter
            .iter()
            .map(|&tokens| json!({ "text": text(tokens) }).to_string() + "\n")
            .collect::<String>(),
    );
    let peak = |cell: &Value| number(&cell["predicted_allocated_peak_bytes"]);
    assert!(peak(&project.planned(&[])[0]) < peak(cell));
    // Our trainer names its worst batch too.
    let ours = project.plan(&["--set", "stack=candle", "--set", "gpu=null", "--set", "weights=random"]);
    ours.exits(0).stdout_has("the worst batch: step ");
}

/// Thousands of steps: a plan of some has the peak of all, and is quick.
#[test]
fn many_steps_are_planned_by_the_largest() {
    let lengths: Vec<usize> = (0..6000)
        .map(|sample| if sample == 4321 { 64 } else { 2 + sample * 7919 % 40 })
        .collect();
    let project = project(SPEC, &lengths);
    let many = &project.planned(&["--set", "num_train_epochs=1"])[0];
    assert_eq!(number(&many["predicted_training_steps"]), 1500);
    assert!(number(&many["predicted_planned_steps"]) < 300);
    assert_eq!(number(&many["predicted_worst_batch_tokens"]), 64);
    assert!(many["predicted_worst_batch_samples"].as_str().unwrap().contains("4322"));
    let quick = &project.planned(&["--set", "num_train_epochs=1", "--no-replay"])[0];
    assert!(number(&quick["predicted_planned_steps"]) <= 6);
    assert_eq!(quick["predicted_worst_batch_step"], many["predicted_worst_batch_step"]);
}

#[test]
fn data_that_cannot_be_read_is_an_error() {
    let bad = |spec: &str, file: &str, content: &str| {
        let project = project(spec, &[10, 20, 30, 40]);
        project.write(file, content);
        project.plan(&[]).exits(2)
    };
    let wrong = "{\"title\": \"\", \"id\": 1}\n";
    bad(SPEC, "texts.jsonl", wrong).stderr_has("and no `text`; there are: title, id");
    bad(SPEC, "texts.jsonl", "").stderr_has("texts.jsonl: the file is empty");
    bad(SPEC, "texts.jsonl", "{\"text\": \"\"}\n").stderr_has("texts.jsonl: nothing to train on");
    bad(SPEC, "model/tokenizer.json", "{}").stderr_has("tokenizer.json: not a tokenizer");
    let missing = SPEC.replace("texts.jsonl", "nothing.jsonl");
    bad(&missing, "x", "").stderr_has("cannot read ");
    let preset = SPEC.replace("./model", "smollm2-135m");
    bad(&preset, "x", "")
        .stderr_has("the preset has no tokenizer")
        .stderr_has("config.json and tokenizer.json");
    let sample = preset.replace("{ path: texts.jsonl }", "sample");
    bad(&sample, "x", "").stderr_has("the preset has no tokenizer");
    let project = project(SPEC, &[10]);
    fs::remove_file(project.path("model/tokenizer.json")).unwrap();
    project
        .plan(&[])
        .exits(2)
        .stderr_has("no tokenizer; the model's directory needs its tokenizer.json");
}

/// The micro-batch that is named is one of those that TRL trains with. With more samples in a row, a smaller one may take more.
#[test]
fn packed_batches_are_those_that_trl_takes() {
    let runs = fixture("packing.json");
    let is_short = |run: &&Value| run["lengths"].as_array().unwrap().len() < 100;
    for run in runs["runs"].as_array().unwrap().iter().filter(is_short) {
        let lengths: Vec<usize> = serde_json::from_value(run["lengths"].clone()).unwrap();
        let project = project(SPEC, &lengths);
        let settings = [
            "gpu=rtx-3090".to_owned(),
            "attn_implementation=flash_attention_2".to_owned(),
            "packing=true".to_owned(),
            format!("torch.packing_strategy={}", run["strategy"].as_str().unwrap()),
            format!("group_by_length={}", run["grouped"]),
            format!("max_seq_length={}", run["row"]),
            format!("batch_size={}", run["batch_size"]),
            format!("gradient_accumulation_steps={}", run["accumulation"]),
            format!("seed={}", run["seed"]),
            format!("num_train_epochs={}", run["epochs"]),
        ];
        let arguments: Vec<&str> = settings
            .iter()
            .flat_map(|setting| ["--set", setting.as_str()])
            .collect();
        let cell = &project.planned(&arguments)[0];
        assert_eq!(cell["predicted_training_steps"], run["steps"], "{run}");
        let sizes: Vec<[usize; 3]> = serde_json::from_value(run["micro_batches"].clone()).unwrap();
        let named = ["predicted_worst_batch_size", "predicted_worst_batch_tokens"].map(|column| number(&cell[column]));
        assert!(
            sizes.iter().any(|[rows, len, _]| [*rows, *len] == named),
            "{named:?}: {run}"
        );
    }
}
