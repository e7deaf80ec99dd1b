//! DoRA on a decoder, and on an encoder, whose layers have biases.

use std::fs;
use std::path::Path;

use expctl::cell::{Cell, Dtype, LrScheduler};
use expctl::options::Adapter;
use expctl::peft::{self, CONFIG_FILE, WEIGHTS_FILE};

use crate::common::training::{self, values};
use crate::fixtures::{Tensors, assert_close, assert_same, fixture};
use crate::models::{assert_gradients, assert_logits};
use crate::runs::{Golden, adapter_cell, assert_run};

const DECODER: &str = "tiny_llama_dora";
const ENCODER: &str = "tiny_bert_dora";
const MODELS: [&str; 2] = [DECODER, ENCODER];

#[test]
fn logits_loss_and_gradients_are_those_of_peft() {
    for model in MODELS {
        let cell = adapter_cell(model);
        assert_eq!(cell.adapter, Adapter::Dora);
        assert_logits(model, &cell, "");
        assert_gradients(model, &cell, "", Golden::of(model).loss.expect("a loss"));
    }
}

#[test]
fn an_adapter_that_peft_wrote_is_written_byte_for_byte() {
    for model in MODELS {
        let theirs = fixture(&format!("{model}_adapter"));
        let (config, tensors) = peft::read(&theirs).expect("PEFT's adapter");
        let dir = tempfile::tempdir().expect("a folder");
        peft::write(dir.path(), &config, &tensors).expect("the adapter is written");
        let read = |folder: &Path, file: &str| fs::read(folder.join(file)).expect("a file");
        assert_same(&read(dir.path(), WEIGHTS_FILE), &read(&theirs, WEIGHTS_FILE), model);
        let settings: serde_json::Value = serde_json::from_slice(&read(dir.path(), CONFIG_FILE)).expect("JSON");
        assert_eq!(settings["use_dora"], true);
    }
}

/// The norms of the base's rows, in the base's format.
#[test]
fn a_new_adapter_has_the_magnitudes_of_peft() {
    let runs = [
        (DECODER, "float32", Dtype::Float32),
        (DECODER, "bfloat16", Dtype::Bfloat16),
        (DECODER, "int4", Dtype::Int4),
        (ENCODER, "float32", Dtype::Float32),
        (ENCODER, "bfloat16", Dtype::Bfloat16),
    ];
    for (model, run, dtype) in runs {
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        let cell = Cell {
            dtype,
            ..adapter_cell(model)
        };
        let (mut trainer, _) = training::trainer(&cell, &fixture(""));
        let mut count = 0;
        for param in trainer.trainable() {
            let name = param.name.to_string();
            if name.ends_with("lora_magnitude_vector") {
                let theirs = tensors.f32(&format!("initial.{run}.{name}"));
                // One step of bfloat16, where two sums round to different sides.
                let tolerance = if dtype == Dtype::Float32 { 1e-6 } else { 8e-3 };
                assert_close(
                    &values(&param.value),
                    &theirs,
                    tolerance,
                    &format!("{model}, {run}: {name}"),
                );
                count += 1;
            }
        }
        assert_eq!(count, if model == DECODER { 14 } else { 13 });
    }
}

#[test]
fn twenty_steps_train_the_adapter_of_peft() {
    for model in MODELS {
        let mut trainer = assert_run(model, "float32", &adapter_cell(model), 1e-4);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        for param in trainer.trainable() {
            let name = param.name.to_string();
            assert_close(
                &values(&param.value),
                &tensors.f32(&format!("trained.{name}")),
                1e-3,
                &name,
            );
        }
    }
}

#[test]
fn twenty_steps_with_schedule_and_with_accumulated_gradients() {
    for (run, lr_scheduler_type) in [("linear", LrScheduler::Linear), ("cosine", LrScheduler::Cosine)] {
        let cell = Cell {
            lr_scheduler_type,
            warmup_ratio: 0.1,
            weight_decay: 0.1,
            max_grad_norm: 0.5,
            ..adapter_cell(DECODER)
        };
        assert_run(DECODER, run, &cell, 1e-4);
    }
    for model in MODELS {
        let cell = Cell {
            gradient_accumulation_steps: 4,
            ..adapter_cell(model)
        };
        assert_run(model, "accumulated", &cell, 1e-4);
    }
}

#[test]
fn twenty_steps_in_fewer_bits() {
    let run = |model, name, dtype, bnb_4bit_use_double_quant| {
        let cell = Cell {
            dtype,
            bnb_4bit_use_double_quant,
            ..adapter_cell(model)
        };
        assert_run(model, name, &cell, 2e-2);
    };
    for model in MODELS {
        run(model, "bfloat16", Dtype::Bfloat16, true);
    }
    run(DECODER, "float16", Dtype::Float16, true);
    run(DECODER, "int8", Dtype::Int8, true);
    run(DECODER, "int4", Dtype::Int4, true);
    run(DECODER, "int4_single", Dtype::Int4, false);
}
