//! A loss that holds some tokens' logits at a time.

use super::price::{Harm, Price};
use super::technique::{Change, Technique, nothing_follows};
use crate::options::{Loss, Stack, Task};
use crate::spec::cell::Cell;
use crate::text::format;

pub(super) const LOSS: Technique = Technique {
    key: "torch.loss",
    does: "Computes the loss some tokens at a time, so the logits are never held together.",
    avoid: "Where the vocabulary is small beside the layers.",
    follows: &[],
    // Of few tokens, the chunks' own copies are more than the logits.
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        if (cell.stack, cell.task, cell.torch.loss) != (Stack::Torch, Task::CausalLm, Loss::Full) {
            return Vec::new();
        }
        let mut changed = cell.clone();
        changed.torch.loss = Loss::Chunked;
        vec![changed]
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.torch.loss = from.torch.loss,
    price: |change| Price::new(Harm::Recomputation, recomputed(change)),
    meaning: |change| {
        let more = format::percent(recomputed(change).into());
        format!("TRL's loss, some tokens' logits at a time, computed twice: {more} more FLOPs")
    },
};

/// The head's FLOPs, which are done again, as a share of a step's.
fn recomputed(change: &Change<'_>) -> f64 {
    let forward = change.model.forward_flops(change.from.max_seq_length);
    forward.head / forward.of_step(change.from.rank > 0)
}
