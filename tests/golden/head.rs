//! Adapters of the head that predicts tokens: a tied one, and one of its own.

use expctl::cell::{Cell, Dtype, Loss, Weights};
use expctl::model;

use crate::common::training::{self, values};
use crate::fixtures::{Tensors, assert_close, fixture};
use crate::models::{assert_gradients, assert_logits};
use crate::runs::{Golden, adapter_cell, assert_run};

const MODELS: [&str; 7] = [
    "tiny_llama_head",
    "tiny_llama3_head",
    "tiny_gemma2_head",
    "tiny_llama_head_dora",
    "tiny_llama_head_loha",
    "tiny_llama_head_ia3",
    "tiny_llama_head_ia3_inputs",
];

/// The cell with each way to compute the loss.
fn cells(model: &str) -> [Cell; 2] {
    [Loss::Chunked, Loss::Full].map(|loss| Cell {
        loss: Some(loss),
        ..adapter_cell(model)
    })
}

#[test]
fn logits_loss_and_gradients_are_those_of_peft() {
    for model in MODELS {
        for cell in cells(model) {
            assert_logits(model, &cell, "");
            assert_gradients(model, &cell, "", Golden::of(model).loss.expect("a loss"));
        }
    }
}

#[test]
fn twenty_steps_train_the_adapter_of_peft() {
    for model in MODELS {
        for cell in cells(model) {
            let mut trainer = assert_run(model, "float32", &cell, 1e-4);
            let tensors = Tensors::open(&format!("{model}.safetensors"));
            let trained = trainer.trainable();
            assert!(
                trained
                    .iter()
                    .any(|param| param.name.to_string().starts_with("lm_head.")),
                "{model}"
            );
            for param in trained {
                let name = param.name.to_string();
                let theirs = tensors.f32(&format!("trained.{name}"));
                assert_close(&values(&param.value), &theirs, 1e-3, &format!("{model}: {name}"));
            }
        }
    }
}

#[test]
fn twenty_steps_in_fewer_bits() {
    let model = "tiny_llama_head";
    for (dtype, run) in [(Dtype::Bfloat16, "bfloat16"), (Dtype::Int4, "int4")] {
        for cell in cells(model) {
            assert_run(model, run, &Cell { dtype, ..cell }, 2e-2);
        }
    }
}

/// PEFT changes the embedding, too, where the head is tied: its own merged model has other logits.
#[test]
fn a_merged_head_is_untied_and_gives_the_same_logits() {
    for adapter in MODELS {
        let cell = adapter_cell(adapter);
        let dir = tempfile::tempdir().expect("a folder");
        let (of_adapter, output) = (fixture(&format!("{adapter}_adapter")), dir.path().join("merged"));
        model::merge(&of_adapter, &fixture(&cell.model), &output, &|| false).expect(adapter);
        let merged = Cell {
            model: "./merged".into(),
            weights: Some(Weights::Pretrained),
            dtype: Dtype::Float32,
            rank: 0,
            max_seq_length: cell.max_seq_length,
            ..Cell::default()
        };
        let (mut trainer, _) = training::trainer(&merged, dir.path());
        let batch = Golden::of(adapter).sampled(adapter).micro.remove(0);
        let ours = values(&trainer.logits(&batch).expect("logits"));
        let theirs = Tensors::open(&format!("{adapter}.safetensors")).f32("logits");
        let vocabulary = theirs.len() / batch.sequences.tokens();
        // The base is stored in bfloat16, and so is what is merged into it.
        let tolerance = if adapter.starts_with("tiny_llama3") { 1e-5 } else { 2e-2 };
        for (tokens, &length) in batch.sequences.iter().zip(&batch.lengths) {
            let counted = tokens.start * vocabulary..(tokens.start + length as usize) * vocabulary;
            assert_close(&ours[counted.clone()], &theirs[counted], tolerance, adapter);
        }
    }
}
