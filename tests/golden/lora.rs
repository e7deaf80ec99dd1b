//! LoRA's options, on a decoder whose golden numbers have other factors for each.

use std::fs;

use expctl::cell::{Cell, Dtype, LrScheduler, TargetModules};
use expctl::options::{InitLoraWeights, NamePattern};
use expctl::peft::{self, CONFIG_FILE, WEIGHTS_FILE};
use serde_json::{Map, Value};

use crate::common::training::{self, values};
use crate::fixtures::{Tensors, assert_close, assert_same, fixture};
use crate::models::{assert_gradients, assert_logits};
use crate::runs::{Golden, adapter_cell, assert_run, cell};

const MODELS: [&str; 14] = [
    "tiny_qwen2_bias_all",
    "tiny_qwen2_bias_lora_only",
    "tiny_qwen2_bias_some",
    "tiny_llama_save",
    "tiny_llama_save_head",
    "tiny_bert_save",
    "tiny_llama_pattern",
    "tiny_llama_layers",
    "tiny_llama_rslora",
    "tiny_llama_patterns",
    "tiny_llama_lora_fa",
    "tiny_llama_loraplus",
    "tiny_llama_pissa",
    "tiny_llama_olora",
];

#[test]
fn logits_loss_and_gradients_are_those_of_peft() {
    for model in MODELS {
        let cell = adapter_cell(model);
        assert_logits(model, &cell, "");
        assert_gradients(model, &cell, "", Golden::of(model).loss.expect("a loss"));
    }
}

#[test]
fn twenty_steps_train_the_adapter_of_peft() {
    for model in MODELS {
        let mut trainer = assert_run(model, "float32", &adapter_cell(model), 1e-4);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        let trained = trainer.trainable();
        let count = match model {
            "tiny_qwen2_bias_all" => 34,
            "tiny_qwen2_bias_lora_only" => 10,
            "tiny_qwen2_bias_some" => 8,
            "tiny_llama_save" => 11,
            "tiny_llama_save_head" => 23,
            // Two layers and a norm in each block, and the classifier.
            "tiny_bert_save" => 2 * (4 + 2) + 2,
            "tiny_llama_pattern" => 8,
            "tiny_llama_layers" => 6,
            "tiny_llama_lora_fa" => 14,
            _ => 28,
        };
        assert_eq!(trained.len(), count, "{model}");
        for param in trained {
            let name = param.name.to_string();
            let theirs = tensors.f32(&format!("trained.{name}"));
            // Its gradient is small, and Adam's steps are not.
            let tolerance = if name.ends_with("k_proj.bias") { 1e-2 } else { 1e-3 };
            assert_close(&values(&param.value), &theirs, tolerance, &format!("{model}: {name}"));
        }
    }
}

#[test]
fn twenty_steps_with_a_schedule_decay_every_group() {
    let cell = Cell {
        lr_scheduler_type: LrScheduler::Linear,
        warmup_ratio: 0.1,
        weight_decay: 0.1,
        max_grad_norm: 0.5,
        ..adapter_cell("tiny_llama_loraplus")
    };
    assert_run("tiny_llama_loraplus", "linear", &cell, 1e-4);
}

#[test]
fn twenty_steps_of_decomposed_weights_in_fewer_bits() {
    for (model, dtype, run) in [
        ("tiny_llama_pissa", Dtype::Bfloat16, "bfloat16"),
        ("tiny_llama_olora", Dtype::Bfloat16, "bfloat16"),
        ("tiny_llama_olora", Dtype::Int4, "int4"),
    ] {
        let cell = Cell {
            dtype,
            ..adapter_cell(model)
        };
        assert_run(model, run, &cell, 2e-2);
    }
}

/// The base and the new adapter compute what the base did.
#[test]
fn a_new_decomposed_adapter_changes_nothing() {
    let base = "tiny_llama";
    let batch = Golden::of(base).sampled(base).micro.remove(0);
    let logits = |cell: &Cell| {
        let (mut trainer, _) = training::trainer(cell, &fixture(""));
        values(&trainer.logits(&batch).expect("logits"))
    };
    let want = logits(&cell(base, 4));
    for init_lora_weights in [InitLoraWeights::Pissa, InitLoraWeights::Olora] {
        let mut decomposed = cell(base, 4);
        decomposed.lora.init_lora_weights = init_lora_weights;
        assert_close(&logits(&decomposed), &want, 1e-5, init_lora_weights.name());
    }
}

#[test]
fn an_adapter_that_peft_wrote_is_written_as_peft_does() {
    for model in MODELS {
        let theirs = fixture(&format!("{model}_adapter"));
        let (_, tensors) = peft::read(&theirs).expect("PEFT's adapter");
        let options = adapter_cell(model).model_options();
        let lora = options.adapter.expect("an adapter");
        peft::check_options(&theirs, &lora).expect("the options are those of the folder");
        let config = peft::Config::new(options.task, "tiny_llama", &lora);
        let dir = tempfile::tempdir().expect("a folder");
        peft::write(dir.path(), &config, &tensors).expect("the adapter is written");
        let read = |folder: &std::path::Path, file: &str| fs::read(folder.join(file)).expect("a file");
        assert_same(&read(dir.path(), WEIGHTS_FILE), &read(&theirs, WEIGHTS_FILE), model);
        let json = |folder| -> Map<String, Value> { serde_json::from_slice(&read(folder, CONFIG_FILE)).expect("JSON") };
        let (ours, theirs) = (json(dir.path()), json(&theirs));
        assert_eq!(ours["bias"], theirs["bias"]);
        let saved = ours.get("modules_to_save").unwrap_or(&Value::Null);
        assert_eq!(saved, &theirs["modules_to_save"], "{model}");
        if model == "tiny_llama_layers" {
            assert_eq!(ours["layers_to_transform"], theirs["layers_to_transform"]);
        }
        for key in [
            "use_rslora",
            "init_lora_weights",
            "rank_pattern",
            "alpha_pattern",
            "use_dora",
        ] {
            let default = match key {
                "rank_pattern" | "alpha_pattern" => serde_json::json!({}),
                _ => serde_json::json!(false),
            };
            assert_eq!(ours.get(key).unwrap_or(&default), &theirs[key], "{model}: {key}");
        }
    }
}

/// PEFT's `check_target_module_exists`, for names in a list.
fn is_target(module: &str, targets: &[Value], layers: Option<&Value>) -> bool {
    let names = || targets.iter().filter_map(Value::as_str);
    if names().any(|name| name == module) {
        return true;
    }
    let is_named = names().any(|name| module.ends_with(&format!(".{name}")));
    let index = module.split('.').find_map(|part| part.parse::<u64>().ok());
    let layers = layers.and_then(Value::as_array);
    is_named && layers.is_none_or(|layers| layers.iter().any(|layer| layer.as_u64() == index))
}

/// A regular expression may match norms and whole blocks, too: the saved names are those of the adapted layers alone.
#[test]
fn peft_adapts_the_modules_that_have_an_adapter() {
    let model = "tiny_llama";
    let pattern = |text| TargetModules::Pattern(NamePattern::whole(text).expect("a pattern"));
    let mut blocks = cell(model, 4);
    blocks.layers_to_transform = Some(vec![1]);
    let targets = [r".*layers\.1\..*", r".*(self_attn|norm|q_proj)"].map(|text| Cell {
        target_modules: Some(pattern(text)),
        ..cell(model, 4)
    });
    for (cell, count) in targets
        .into_iter()
        .zip([7, 2])
        .chain([(blocks, 7), (cell(model, 4), 14)])
    {
        let (mut trainer, source) = training::trainer(&cell, &fixture(""));
        let options = cell.model_options();
        let params = trainer.saved();
        let tensors = params.iter().map(|param| peft::AdapterTensor {
            name: param.name.to_string(),
            shape: param.value.dims().to_vec(),
            values: values(&param.value),
        });
        let tensors: Vec<_> = tensors.collect();
        let dir = tempfile::tempdir().expect("a folder");
        let config = peft::Config::new(options.task, model, &options.adapter.expect("an adapter"));
        peft::write(dir.path(), &config, &tensors).expect("the adapter is written");
        let json = fs::read(dir.path().join(CONFIG_FILE)).expect("a file");
        let json: Map<String, Value> = serde_json::from_slice(&json).expect("JSON");
        let targets = json["target_modules"].as_array().expect("a list");
        let mut modules = Vec::new();
        for (name, _) in source.config().modules() {
            modules.extend(name.match_indices('.').map(|(at, _)| name[..at].to_owned()));
            modules.push(name);
        }
        modules.sort();
        modules.dedup();
        let found = modules.into_iter();
        let found: Vec<String> = found
            .filter(|name| is_target(name, targets, json.get("layers_to_transform")))
            .collect();
        let has_adapter = |name: &String| {
            tensors
                .iter()
                .any(|tensor| tensor.name == format!("{name}.lora_A.weight"))
        };
        assert!(found.iter().all(has_adapter), "{found:?}");
        assert_eq!((found.len(), tensors.len()), (count, 2 * count));
    }
}
