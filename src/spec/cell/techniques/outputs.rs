//! A training loop that lets a micro-batch's outputs go.

use super::price::Price;
use super::technique::{Technique, nothing_follows};
use crate::options::{OutputLifetime, Stack};
use crate::spec::cell::Cell;

pub(super) const OUTPUTS: Technique = Technique {
    key: "torch.keep_outputs",
    does: "Lets a micro-batch's logits go before the backward pass ends.",
    avoid: "Where the loop reads the logits after the loss.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        if cell.stack != Stack::Torch || cell.torch.keep_outputs == OutputLifetime::None {
            return Vec::new();
        }
        let mut changed = cell.clone();
        changed.torch.keep_outputs = OutputLifetime::None;
        vec![changed]
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.torch.keep_outputs = from.torch.keep_outputs,
    price: |_| Price::free(),
    meaning: |_| "logits are let go after the loss, as in transformers' Trainer".into(),
};
