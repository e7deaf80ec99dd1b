//! A loss that holds some tokens' logits at a time.

use arch::ModelConfig;
use base::text::format;
use cell::Cell;
use options::{Loss, Stack, Task};

use super::price::{Harm, Price};
use super::technique::{Change, Technique, nothing_follows};
use super::trainable::base_share;

pub(super) const LOSS: Technique = Technique {
    key: "loss",
    does: "Computes the loss some tokens at a time, so the logits are never held together.",
    avoid: "With a small vocabulary: the logits are then a small part of the peak.",
    follows: &[],
    // Of few tokens, the chunks' own copies are more than the logits.
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        if (cell.task, cell.loss()) != (Task::CausalLm, Loss::Full) {
            return Vec::new();
        }
        let loss = match cell.stack {
            Stack::Candle => Loss::Chunked,
            Stack::Torch => Loss::Tiled,
        };
        vec![Cell {
            loss: Some(loss),
            ..cell.clone()
        }]
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.loss = from.loss,
    price: |change| match recomputed(change) {
        0.0 => Price::free(),
        share => Price::new(Harm::Recomputation, share),
    },
    meaning: |change| {
        let more = match recomputed(change) {
            0.0 => String::new(),
            share => format!(", computed twice: {} more FLOPs", format::percent(share.into())),
        };
        match change.to.stack {
            Stack::Torch => format!("TRL's loss since 1.15, in tiles{more}"),
            Stack::Candle => format!("some logits at a time{more}"),
        }
    },
};

/// The head's FLOPs that are done again, as a share of a step's. Our trainer takes a frozen head's product once.
fn recomputed(change: &Change<'_>) -> f64 {
    let Change { from, to, model } = change;
    if to.stack == Stack::Candle && !trains_head(from, model) {
        return 0.0;
    }
    let forward = model.forward_flops(from.max_seq_length);
    forward.head / forward.of_step(base_share(from, model))
}

/// True if the head's weight is trained, which may be the embedding's.
fn trains_head(cell: &Cell, model: &ModelConfig) -> bool {
    let options = cell.model_options();
    options.trains(&model.head_table(&options), "weight")
}
