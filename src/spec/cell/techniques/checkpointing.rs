//! Blocks that keep their input alone, and run their forward pass again in the backward pass.

use super::price::{Harm, Price};
use super::technique::{Change, Technique, nothing_follows};
use crate::arch::ModelConfig;
use crate::options::Checkpointing;
use crate::spec::cell::Cell;
use crate::text::format;

/// Every so many blocks, from the fewest to the most recomputed.
const EVERY: [usize; 4] = [8, 4, 3, 2];

pub(super) const CHECKPOINTING: Technique = Technique {
    key: "gradient_checkpointing",
    does: "Keeps the input of a block alone, and runs its forward pass again in the backward pass.",
    avoid: "Where activations are a small part of the peak: the time is lost for little.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, model| {
        let fewer = EVERY.into_iter().filter(|&n| n < model.num_hidden_layers);
        let all = fewer.map(Checkpointing::Every).chain([Checkpointing::Full]);
        let own = blocks(cell.gradient_checkpointing, model);
        let more = all.filter(|&checkpointing| blocks(checkpointing, model) > own);
        more.map(|gradient_checkpointing| Cell {
            gradient_checkpointing,
            ..cell.clone()
        })
        .collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.gradient_checkpointing = from.gradient_checkpointing,
    price: |change| Price::new(Harm::Recomputation, recomputed(change)),
    meaning: |change| {
        let (again, all) = (
            blocks(change.to.gradient_checkpointing, change.model),
            change.model.num_hidden_layers,
        );
        let which = if again == all {
            "every block runs".to_owned()
        } else {
            format!("{again} of {all} blocks run")
        };
        format!(
            "{which} forward twice: {} more FLOPs",
            format::percent(recomputed(change).into())
        )
    },
};

/// The number of blocks that recompute.
fn blocks(checkpointing: Checkpointing, model: &ModelConfig) -> usize {
    let all = 0..model.num_hidden_layers;
    all.filter(|&block| checkpointing.recomputes(block)).count()
}

/// The FLOPs of blocks that run their forward pass again, as a share of a step's.
fn recomputed(change: &Change<'_>) -> f64 {
    let Change { from, to, model } = change;
    let forward = model.forward_flops(from.max_seq_length);
    let step = forward.of_step(from.rank > 0);
    let more = blocks(to.gradient_checkpointing, model) as f64 - blocks(from.gradient_checkpointing, model) as f64;
    more * forward.block / step
}
