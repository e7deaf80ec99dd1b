//! Our adapter files against PEFT's (written by python/golden/make.py).

use std::fs;

use crate::fixtures::{assert_same, fixture};
use crate::runs::DECODERS;
use expctl::arch::ModelConfig;
use expctl::cell::Task;
use expctl::options::AdapterOptions;
use expctl::peft::{self, CONFIG_FILE, WEIGHTS_FILE};

#[test]
fn weights_that_peft_wrote_are_written_byte_for_byte() {
    for model in DECODERS {
        let text = fs::read(fixture(model).join("config.json")).expect("the model's configuration");
        let shape = ModelConfig::from_json(&text).expect("the model's shape");
        let (linears, blocks) = (shape.family.target_modules().len(), shape.num_hidden_layers);
        let theirs = fixture(&format!("{model}_adapter"));
        let (config, tensors) = peft::read(&theirs).expect("PEFT's adapter");
        assert_eq!(
            tensors.len(),
            2 * linears * blocks,
            "{model}: two factors of {linears} layers in {blocks} blocks"
        );
        let dir = tempfile::tempdir().expect("a temporary folder");
        peft::write(dir.path(), &config, &tensors).expect("the adapter is written");
        let read = |folder: &std::path::Path| fs::read(folder.join(WEIGHTS_FILE)).expect("the weights' file");
        assert_same(&read(dir.path()), &read(&theirs), model);
    }
}

#[test]
fn the_settings_we_write_are_among_those_peft_writes() {
    let theirs = fixture("tiny_llama_adapter");
    let (read, tensors) = peft::read(&theirs).expect("PEFT's adapter");
    let read = read.options().expect("LoRA");
    let lora = AdapterOptions {
        lora_dropout: read.lora_dropout,
        ..AdapterOptions::lora(read.rank, read.lora_alpha)
    };
    let config = peft::Config::new(Task::CausalLm, "tiny_llama", &lora);
    let dir = tempfile::tempdir().expect("a temporary folder");
    peft::write(dir.path(), &config, &tensors).expect("the adapter is written");
    let json = |folder: &std::path::Path| -> serde_json::Map<String, serde_json::Value> {
        let text = fs::read_to_string(folder.join(CONFIG_FILE)).expect("the configuration");
        serde_json::from_str(&text).expect("an object")
    };
    let (mut ours, theirs) = (json(dir.path()), json(&theirs));
    // PEFT lists every module's full name; the last components that we list match the same modules
    let targets = ours.remove("target_modules");
    assert_eq!(
        targets,
        Some(serde_json::json!([
            "down_proj",
            "gate_proj",
            "k_proj",
            "o_proj",
            "q_proj",
            "up_proj",
            "v_proj"
        ]))
    );
    for (key, value) in ours {
        let same = match (value.as_f64(), theirs[&key].as_f64()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => value == theirs[&key],
        };
        assert!(same, "{key}: ours is {value}, PEFT's {}", theirs[&key]);
    }
}
