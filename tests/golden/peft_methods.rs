//! Methods other than LoRA's, on decoders and on encoders, whose layers have biases.

use std::fs;
use std::path::Path;

use expctl::cell::{Cell, Dtype, LrScheduler};
use expctl::peft::{self, CONFIG_FILE, WEIGHTS_FILE};
use serde_json::{Map, Value};

use crate::common::training::values;
use crate::fixtures::{Tensors, assert_close, assert_same, fixture};
use crate::models::{assert_gradients, assert_logits};
use crate::runs::{Golden, adapter_cell, assert_run};

/// A decoder of each method, with all of its runs.
const DECODERS: [&str; 9] = [
    "tiny_llama_ia3",
    "tiny_llama_miss",
    "tiny_llama_vera",
    "tiny_llama_prompt",
    "tiny_llama_ln",
    "tiny_llama_prefix",
    "tiny_llama_oft",
    "tiny_llama_loha",
    "tiny_llama_lokr",
];
const OTHERS: [&str; 19] = [
    "tiny_llama_ia3_inputs",
    "tiny_qwen2_ia3",
    "tiny_bert_ia3",
    "tiny_llama_miss_odd",
    "tiny_llama_miss_mini",
    "tiny_bert_miss",
    "tiny_bert_vera",
    "tiny_gemma3_prompt",
    "tiny_gemma3_ln",
    "tiny_qwen2_ln",
    "tiny_qwen3_prefix",
    "tiny_llama_oft_exact",
    "tiny_llama_oft_share",
    "tiny_bert_oft",
    "tiny_llama_loha_patterns",
    "tiny_bert_loha",
    "tiny_llama_lokr_both",
    "tiny_llama_lokr_factor",
    "tiny_bert_lokr",
];

fn models() -> impl Iterator<Item = &'static str> {
    DECODERS.into_iter().chain(OTHERS)
}

#[test]
fn logits_loss_and_gradients_are_those_of_peft() {
    for model in models() {
        let cell = adapter_cell(model);
        assert_logits(model, &cell, "");
        assert_gradients(model, &cell, "", Golden::of(model).loss.expect("a loss"));
    }
}

#[test]
fn twenty_steps_train_the_adapter_of_peft() {
    for model in models() {
        let mut trainer = assert_run(model, "float32", &adapter_cell(model), 1e-4);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        for param in trainer.trainable() {
            let name = param.name.to_string();
            let theirs = tensors.f32(&format!("trained.{name}"));
            assert_close(&values(&param.value), &theirs, 1e-3, &format!("{model}: {name}"));
        }
    }
}

#[test]
fn twenty_steps_with_schedule_and_with_accumulated_gradients() {
    for model in DECODERS {
        let scheduled = Cell {
            lr_scheduler_type: LrScheduler::Linear,
            warmup_ratio: 0.1,
            weight_decay: 0.1,
            max_grad_norm: 0.5,
            ..adapter_cell(model)
        };
        assert_run(model, "linear", &scheduled, 1e-4);
        let accumulated = Cell {
            gradient_accumulation_steps: 4,
            ..adapter_cell(model)
        };
        assert_run(model, "accumulated", &accumulated, 1e-4);
    }
}

#[test]
fn twenty_steps_in_fewer_bits() {
    let run = |model, name, dtype| {
        let cell = Cell {
            dtype,
            ..adapter_cell(model)
        };
        assert_run(model, name, &cell, 2e-2);
    };
    let with_bfloat16 = [
        "tiny_llama_oft_exact",
        "tiny_llama_oft_share",
        "tiny_llama_lokr_both",
        "tiny_llama_ia3_inputs",
        "tiny_qwen2_ia3",
        "tiny_bert_ia3",
        "tiny_llama_miss_mini",
        "tiny_gemma3_prompt",
    ];
    for model in DECODERS.into_iter().chain(with_bfloat16) {
        run(model, "bfloat16", Dtype::Bfloat16);
    }
    for model in DECODERS {
        // AdamW's states of norms in float16 are not finite in torch.
        if model != "tiny_llama_ln" {
            run(model, "float16", Dtype::Float16);
        }
        run(model, "int8", Dtype::Int8);
    }
    // PEFT refuses IA3, LoHa and LoKr in 4 bits.
    for model in [
        "tiny_llama_miss",
        "tiny_llama_vera",
        "tiny_llama_prompt",
        "tiny_llama_ln",
        "tiny_llama_prefix",
        "tiny_llama_oft",
    ] {
        run(model, "int4", Dtype::Int4);
    }
}

#[test]
fn an_adapter_that_peft_wrote_is_written_as_peft_does() {
    for model in models() {
        let theirs = fixture(&format!("{model}_adapter"));
        let (_, tensors) = peft::read(&theirs).expect("PEFT's adapter");
        let options = adapter_cell(model).model_options();
        let config = peft::Config::new(options.task, model, &options.adapter.expect("an adapter"));
        let dir = tempfile::tempdir().expect("a folder");
        peft::write(dir.path(), &config, &tensors).expect("the adapter is written");
        let read = |folder: &Path, file: &str| fs::read(folder.join(file)).expect("a file");
        assert_same(&read(dir.path(), WEIGHTS_FILE), &read(&theirs, WEIGHTS_FILE), model);
        let json = |folder| -> Map<String, Value> { serde_json::from_slice(&read(folder, CONFIG_FILE)).expect("JSON") };
        let (mut ours, theirs) = (json(dir.path()), json(&theirs));
        ours.remove("base_model_name_or_path");
        // IA3's are names in full, since last parts of names may be those of other layers, too.
        for key in ["target_modules", "feedforward_modules"] {
            let Some(ours) = ours.remove(key) else { continue };
            let names = |list: &Value| list.as_array().expect("a list").clone();
            for name in names(&ours) {
                let name = name.as_str().expect("a name").to_owned();
                let is_of = |theirs: &Value| {
                    let theirs = theirs.as_str().expect("a name");
                    name.ends_with(theirs) || theirs.ends_with(&name)
                };
                assert!(names(&theirs[key]).iter().any(is_of), "{model}: {key}: {name}");
            }
        }
        for (key, value) in ours {
            let is_same = match value.as_f64() {
                Some(number) => Some(number) == theirs[&key].as_f64(),
                None => value == theirs[&key],
            };
            assert!(is_same, "{model}: {key}: {value} and {}", theirs[&key]);
        }
    }
}
