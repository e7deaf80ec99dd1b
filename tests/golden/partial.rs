//! Training some weights of a model: norms, blocks, and biases (BitFit).

use expctl::cell::{Cell, Dtype};

use crate::common::training::values;
use crate::fixtures::{Tensors, assert_close};
use crate::models::{assert_gradients, assert_logits};
use crate::runs::{Golden, assert_run, cell, trainer};

/// Each model with the number of weights that are trained.
const MODELS: [(&str, usize); 4] = [
    ("tiny_llama_norms", 5),
    ("tiny_llama_block", 10),
    ("tiny_qwen2_bitfit", 6),
    ("tiny_bert_bitfit", 20),
];

#[test]
fn logits_loss_and_gradients_are_those_of_transformers() {
    for (model, count) in MODELS {
        let cell = cell(model, 0);
        assert_eq!(trainer(model, &cell).trainable().len(), count, "{model}");
        assert_logits(model, &cell, "");
        assert_gradients(model, &cell, "", Golden::of(model).loss.expect("a loss"));
    }
}

#[test]
fn twenty_steps_train_these_weights_alone() {
    for (model, _) in MODELS {
        let mut trainer = assert_run(model, "float32", &cell(model, 0), 1e-4);
        let tensors = Tensors::open(&format!("{model}.safetensors"));
        for param in trainer.trainable() {
            let name = param.name.to_string();
            // Its gradient is rounding alone.
            if name.ends_with("key.bias") {
                continue;
            }
            let theirs = tensors.f32(&format!("trained.{name}"));
            assert_close(&values(&param.value), &theirs, 1e-3, &format!("{model}: {name}"));
        }
    }
}

/// Norms beside quantised weights.
#[test]
fn dense_weights_of_a_quantised_model_are_trained() {
    let model = "tiny_llama_norms";
    let cell = Cell {
        dtype: Dtype::Int4,
        ..cell(model, 0)
    };
    assert_eq!(trainer(model, &cell).trainable().len(), 5);
}
