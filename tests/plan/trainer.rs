//! The prediction of our trainer against its ledger, cell by cell.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;

use expctl::arch::{ModelConfig, check};
use expctl::cell::{Adapter, Optimizer, Stack, Task};
use expctl::records::prediction::Prediction;
use expctl::records::store::{read_prediction, read_record};
use expctl::records::{Measured, Status};
use expctl::spec::{self, Overrides};
use expctl::trace::Category;
use serde_json::json;

use crate::common::project::Project;
use crate::sample::Sample;

/// The figures in which a prediction differs from what was measured.
fn differences(measured: &Measured, prediction: &Prediction) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, predicted: &dyn Debug, measured: &dyn Debug| {
        let (predicted, measured) = (format!("{predicted:?}"), format!("{measured:?}"));
        if predicted != measured {
            differences.push(format!("{what}: {predicted} predicted, {measured} measured"));
        }
    };
    let tensors = measured.allocated_peak_by_category.iter();
    let elsewhere = [Category::Host, Category::Offloaded].map(Category::name);
    let tensors: BTreeMap<_, _> = tensors
        .filter(|(name, _)| !elsewhere.contains(&name.as_str()))
        .collect();
    let predicted: BTreeMap<_, _> = prediction.allocated_peak_by_category.iter().collect();
    compare(
        "peak",
        &Some(prediction.allocated_peak_bytes),
        &measured.allocated_peak_bytes,
    );
    compare(
        "phase",
        &Some(&prediction.binding_phase),
        &measured.allocated_peak_phase.as_ref(),
    );
    compare(
        "host",
        &prediction.host_allocated_peak_bytes,
        &measured.host_allocated_peak_bytes,
    );
    compare("module", &prediction.binding_module, &measured.allocated_peak_module);
    compare("categories", &predicted, &tensors);
    compare(
        "phases",
        &prediction.allocated_peak_in_phase,
        &measured.allocated_peak_in_phase,
    );
    compare(
        "after steps",
        &Some(prediction.allocated_mean_bytes),
        &measured.allocated_mean_bytes,
    );
    compare("parameters", &prediction.parameter_count, &measured.parameter_count);
    compare("trainable", &prediction.trainable_count, &measured.trainable_count);
    compare(
        "adapter file",
        &prediction.adapter_file_bytes,
        &measured.adapter_file_bytes,
    );
    differences
}

/// Trains the sample, and holds each cell's figures to its prediction, to the byte.
fn check(sample: &Sample) {
    check_project(&Project::new(&sample.spec()));
}

fn check_project(project: &Project) {
    let output = project.run(&["--progress", "none"]);
    assert_eq!(output.code, 0, "{output}");
    let study = spec::load(&project.path("spec.yaml"), &Overrides::default()).unwrap();
    let results = project.results();
    let mut wrong = Vec::new();
    for planned in &study.cells {
        let dir = results.cell(&planned.id);
        let record = read_record(&dir).unwrap().unwrap();
        let cell = planned.cell.to_yaml();
        assert_eq!(record.status, Status::Ok, "{:?}: {cell}", record.reason);
        let prediction = read_prediction(&dir).unwrap().unwrap();
        let differences = differences(&record.measured.unwrap(), &prediction);
        if !differences.is_empty() {
            wrong.push(format!("{}\n{cell}", differences.join("\n")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cells are off:\n{}",
        wrong.len(),
        study.cells.len(),
        wrong.join("\n")
    );
}

const LLAMA: [&str; 7] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
];
const LLAMAS_LENGTHS: [usize; 7] = [2, 5, 16, 31, 64, 100, 129];
const PHI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tiny_phi3");
const PHI3: [&str; 4] = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"];
/// Its original context has 16 tokens.
const PHIS_LENGTHS: [usize; 5] = [2, 16, 17, 31, 64];
/// Models of the fixtures with Llama's linear layers, which see up to 64 tokens.
const OTHERS: [&str; 7] = [
    "tiny_mistral",
    "tiny_qwen2",
    "tiny_qwen3",
    "tiny_gemma2",
    "tiny_gemma3",
    "tiny_gemma",
    "tiny_ministral",
];
const DISTILBERT: [&str; 6] = ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"];
const BERT: [&str; 4] = ["query", "key", "value", "dense"];

fn fixture(model: &str) -> String {
    format!("{}/tests/fixtures/{model}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_ledger_counts_what_was_predicted() {
    let mut sample = Sample::new(1);
    sample.decoders("tiny", &LLAMA, &LLAMAS_LENGTHS, 30);
    sample.decoders(PHI, &PHI3, &PHIS_LENGTHS, 8);
    for model in OTHERS {
        sample.decoders(&fixture(model), &LLAMA, &PHIS_LENGTHS, 6);
    }
    sample.encoders("distilbert-base", &DISTILBERT, 2);
    sample.encoders("bert-base", &BERT, 1);
    check(&sample);
}

/// One cell of each family, by a checkpoint of the fixtures, of each adapter and of each optimizer.
#[test]
fn everything_that_is_trained_is_planned() {
    let mut sample = Sample::new(0);
    let mut planned = Vec::new();
    for folder in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).unwrap() {
        let model = folder.unwrap().path();
        if let Ok(text) = fs::read(model.join("config.json")) {
            let config = ModelConfig::from_json(&text).unwrap();
            planned.push(config.family);
            let mut cell = json!({ "model": model, "task": config.task(), "rank": 4 });
            if config.task() == Task::SequenceClassification {
                cell["num_labels"] = json!(3);
            }
            sample.cell(cell);
        }
    }
    for family in check::trained_families() {
        assert!(planned.contains(&family), "{} has no small checkpoint", family.name());
    }
    for adapter in Adapter::ALL {
        let mut cell = json!({ "model": "tiny", "adapter": adapter });
        if adapter.heeds("rank") {
            cell["rank"] = json!(4);
        }
        sample.cell(cell);
    }
    for optimizer in Optimizer::of(Stack::Candle) {
        sample.cell(json!({ "model": "tiny", "optim": optimizer }));
    }
    check(&sample);
}

/// `cargo test --release --test plan -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes; the test above is a part of it"]
fn the_ledger_counts_what_was_predicted_of_many_cells() {
    let mut sample = Sample::new(2);
    sample.decoders("tiny", &LLAMA, &LLAMAS_LENGTHS, 200);
    sample.decoders(PHI, &PHI3, &PHIS_LENGTHS, 50);
    for model in OTHERS {
        sample.decoders(&fixture(model), &LLAMA, &PHIS_LENGTHS, 30);
    }
    sample.encoders("distilbert-base", &DISTILBERT, 12);
    sample.encoders("bert-base", &BERT, 8);
    check(&sample);
}

/// Prompts and completions of many lengths: the head holds the logits of predicted tokens alone.
#[test]
fn completions_take_what_is_predicted() {
    let cells = [
        json!({"padding": "longest", "loss": "chunked"}),
        json!({"padding": "max_length", "rank": 0}),
        json!({"packing": true, "packing_separator": "eos"}),
        json!({"packing": true, "packing_attention": "full", "dtype": "bfloat16"}),
        json!({"gradient_accumulation_steps": 3, "max_tokens_per_batch": 90, "longest_first": true}),
        json!({"loss": "full", "eval_fraction": 0.1}),
        json!({"data": {"path": "pairs.jsonl", "completion_only_loss": false}}),
    ];
    let spec = json!({
        "name": "completions",
        "defaults": {
            "model": "tiny", "dtype": "float32", "rank": 4, "batch_size": 3, "max_seq_length": 80, "max_steps": 9,
            "data": {"path": "pairs.jsonl"},
        },
        "sweep": { "include": cells },
    });
    let project = Project::new(&spec.to_string());
    let row = |at: usize| {
        let (prompt, completion) = ("word ".repeat(at * 7 % 23), "answer ".repeat(at * 5 % 11 + 1));
        json!({ "prompt": prompt, "completion": completion }).to_string() + "\n"
    };
    project.write("pairs.jsonl", (0..60).map(row).collect::<String>());
    check_project(&project);
}
