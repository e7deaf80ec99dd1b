//! Blocks that keep their input alone, and run their forward pass again in the backward pass.

use base::text::format;
use cell::Cell;
use options::{Checkpointing, Stack};

use super::price::{Harm, Price};
use super::technique::{Change, Technique, nothing_follows};
use super::trainable::base_share;

/// Shares of the blocks that recompute, in 24ths.
const SHARES: [usize; 5] = [3, 6, 8, 12, 18];

pub(super) const CHECKPOINTING: Technique = Technique {
    key: "gradient_checkpointing",
    does: "Keeps the input of a block alone, and runs its forward pass again in the backward pass.",
    avoid: "Where activations are a small part of the peak: the time is lost for little.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, model| {
        let blocks = model.num_hidden_layers;
        let own = cell.gradient_checkpointing.count(blocks);
        // transformers' Trainer recomputes every block or none.
        let shares = match cell.stack {
            Stack::Candle => &SHARES[..],
            Stack::Torch => &[],
        };
        let mut counts: Vec<usize> = shares.iter().map(|share| (blocks * share).div_ceil(24)).collect();
        counts.push(blocks);
        counts.dedup();
        let more = counts.into_iter().filter(|&count| count > own);
        let more = more.map(|count| Checkpointing::first(count, blocks));
        more.map(|gradient_checkpointing| Cell {
            gradient_checkpointing,
            ..cell.clone()
        })
        .collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.gradient_checkpointing.clone_from(&from.gradient_checkpointing),
    price: |change| Price::new(Harm::Recomputation, recomputed(change)),
    meaning: |change| {
        let all = change.model.num_hidden_layers;
        let again = change.to.gradient_checkpointing.count(all);
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

/// The FLOPs of blocks that run their forward pass again, as a share of a step's.
fn recomputed(change: &Change<'_>) -> f64 {
    let Change { from, to, model } = change;
    let forward = model.forward_flops(from.max_seq_length);
    let step = forward.of_step(base_share(from, model));
    let blocks = |cell: &Cell| cell.gradient_checkpointing.count(model.num_hidden_layers) as f64;
    (blocks(to) - blocks(from)) * forward.block / step
}
