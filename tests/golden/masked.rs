//! A loss of some tokens, which transformers has with labels of -100 elsewhere.

use expctl::cell::{Checkpointing, Loss};
use expctl::data::EffectiveBatch;
use serde::Deserialize;

use crate::common::training::values;
use crate::fixtures::{Tensors, assert_close, assert_relative, json};
use crate::runs::{Golden, adapter_cell, cell, trainer};

const MODEL: &str = "tiny_llama";

/// What `python/golden/masked.py` wrote.
#[derive(Deserialize)]
struct Masked {
    /// The ranges of predicted tokens of each row.
    targets: Vec<Vec<[u32; 2]>>,
    loss: f64,
    #[serde(rename = "full.loss")]
    full_loss: f64,
}

/// The first batch of the golden runs, of which some tokens are predicted.
fn batch(targets: &[Vec<[u32; 2]>]) -> EffectiveBatch {
    let mut batch = Golden::of(MODEL).sampled(MODEL);
    let micro = &mut batch.micro[0];
    let rows = micro.sequences.iter().zip(targets);
    let of_row = rows.flat_map(|(tokens, ranges)| {
        let start = tokens.start as u32;
        ranges.iter().map(move |[first, end]| start + first..start + end)
    });
    micro.targets = Some(of_row.collect());
    batch.counted = micro.counted();
    batch
}

#[test]
fn loss_and_gradients_of_some_tokens_are_those_of_transformers() {
    let golden: Masked = serde_json::from_value(json("golden_masked.json")).expect("targets and losses");
    let tensors = Tensors::open("tiny_llama_masked.safetensors");
    let batch = batch(&golden.targets);
    assert_eq!(batch.counted, 12);
    for (base, prefix, expected) in [
        (adapter_cell(MODEL), "", golden.loss),
        (cell(MODEL, 0), "full.", golden.full_loss),
    ] {
        for loss in [Loss::Chunked, Loss::Full] {
            let mut cell = base.clone();
            (cell.loss, cell.gradient_checkpointing) = (Some(loss), Checkpointing::Full);
            let mut trainer = trainer(MODEL, &cell);
            let ours = trainer.forward_backward(&batch, 0, &mut || ()).expect("a step");
            assert_relative(ours, expected, 1e-5, MODEL);
            for param in trainer.trainable() {
                let name = format!("{prefix}gradient.{}", param.name);
                let gradient = param.gradient().unwrap_or_else(|| panic!("{name} has no gradient"));
                assert_close(&values(gradient), &tensors.f32(&name), 1e-4, &name);
            }
        }
    }
}
