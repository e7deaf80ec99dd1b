//! Our trainer against transformers and PEFT, for every model: logits, gradients, and twenty steps.

use expctl::arch::{ModelConfig, check};
use expctl::cell::{Cell, Checkpointing, Dtype};

use crate::common::training::values;
use crate::fixtures::{Tensors, assert_close, assert_relative, fixture};
use crate::runs::{DECODERS, ENCODERS, Golden, adapter_cell, assert_run, cell, is_encoder, models, trainer};

/// The cells with and without an adapter, and the prefix of their tensors.
fn cases(model: &str) -> [(Cell, &'static str); 2] {
    [(adapter_cell(model), ""), (cell(model, 0), "full.")]
}

#[test]
fn every_trained_family_has_golden_numbers() {
    let config = |model| {
        let text = std::fs::read(fixture(model).join("config.json")).expect("a configuration");
        ModelConfig::from_json(&text).expect(model)
    };
    let compared: Vec<_> = models().map(|model| config(model).family).collect();
    for family in check::trained_families() {
        assert!(compared.contains(&family), "{} has no golden numbers", family.name());
    }
}

#[test]
fn logits_are_those_of_transformers() {
    for model in models() {
        for (cell, prefix) in cases(model) {
            assert_logits(model, &cell, prefix);
        }
    }
}

/// Compares the logits of the sampled micro-batch.
pub fn assert_logits(model: &str, cell: &Cell, prefix: &str) {
    let tensors = Tensors::open(&format!("{model}.safetensors"));
    let batch = Golden::of(model).sampled(model).micro.remove(0);
    let name = format!("{prefix}logits");
    let ours = values(&trainer(model, cell).logits(&batch).expect("logits"));
    let theirs = tensors.f32(&name);
    if is_encoder(model) {
        assert_close(&ours, &theirs, 1e-5, &format!("{model}: {name}"));
        return;
    }
    // A decoder's logits of padding are not compared; those of virtual tokens are.
    let own = cell.model_options().prompt_tokens();
    let vocabulary = theirs.len() / (batch.sequences.tokens() + own * batch.sequences.count());
    for (row, (tokens, &length)) in batch.sequences.iter().zip(&batch.lengths).enumerate() {
        let start = tokens.start + own * row;
        let counted = start * vocabulary..(start + own + length as usize) * vocabulary;
        let what = format!("{model}: {name} of row {row}");
        assert_close(&ours[counted.clone()], &theirs[counted], 1e-5, &what);
    }
}

#[test]
fn loss_and_gradients_are_those_of_transformers() {
    for model in models() {
        let golden = Golden::of(model);
        for (cell, prefix) in cases(model) {
            let loss = if cell.rank > 0 { golden.loss } else { golden.full_loss };
            assert_gradients(model, &cell, prefix, loss.expect("a loss"));
        }
    }
}

/// Compares loss and gradients of the sampled micro-batch.
pub fn assert_gradients(model: &str, cell: &Cell, prefix: &str, loss: f64) {
    let tensors = Tensors::open(&format!("{model}.safetensors"));
    for gradient_checkpointing in [Checkpointing::None, Checkpointing::Full] {
        let cell = Cell {
            gradient_checkpointing,
            ..cell.clone()
        };
        let mut trainer = trainer(model, &cell);
        let sampled = Golden::of(model).sampled(model);
        let ours = trainer.forward_backward(&sampled, 0, &mut || ()).expect("a step");
        assert_relative(ours, loss, 1e-5, model);
        for param in trainer.trainable() {
            let name = format!("{prefix}gradient.{}", param.name);
            let gradient = param
                .gradient()
                .unwrap_or_else(|| panic!("{model}: {name} has no gradient"));
            let (ours, theirs) = (values(gradient), tensors.f32(&name));
            let what = format!("{model}: {name}");
            // A key's bias moves all scores of a query alike, so its gradient is rounding alone.
            if name.ends_with("k_lin.bias") || name.ends_with("key.bias") {
                assert!(ours.iter().chain(&theirs).all(|value| value.abs() < 1e-6), "{what}");
            } else {
                assert_close(&ours, &theirs, 1e-4, &what);
            }
        }
    }
}

#[test]
fn twenty_steps_of_adapters() {
    for model in models() {
        assert_run(model, "float32", &adapter_cell(model), 1e-4);
    }
}

#[test]
fn twenty_steps_of_every_weight() {
    for model in models() {
        assert_run(model, "full", &cell(model, 0), 1e-4);
    }
}

#[test]
fn twenty_steps_with_accumulated_gradients() {
    for model in models() {
        let cell = Cell {
            gradient_accumulation_steps: 4,
            ..adapter_cell(model)
        };
        assert_run(model, "accumulated", &cell, 1e-4);
    }
}

#[test]
fn twenty_steps_in_sixteen_bits() {
    let run = |model: &str, name: &str, dtype: Dtype, cell: Cell| {
        assert_run(model, name, &Cell { dtype, ..cell }, 2e-2);
    };
    for model in models() {
        run(model, "bfloat16", Dtype::Bfloat16, adapter_cell(model));
    }
    for model in DECODERS {
        run(model, "float16", Dtype::Float16, adapter_cell(model));
    }
    for model in ENCODERS {
        run(model, "full_bfloat16", Dtype::Bfloat16, cell(model, 0));
        // Torch's own float16 run has its optimizer's state in float16 too, where 1e-8 is 0.
        run(model, "float32", Dtype::Float16, adapter_cell(model));
    }
}
