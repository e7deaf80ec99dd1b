//! Gradients that are released after the step.

use super::price::Price;
use super::technique::{Technique, nothing_follows};
use crate::options::{Stack, ZeroGrad};
use crate::spec::cell::Cell;

pub(super) const ZERO_GRAD: Technique = Technique {
    key: "torch.zero_grad",
    does: "Releases the gradients right after the optimizer's step.",
    avoid: "Where the loop reads gradients between steps.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        if cell.stack != Stack::Torch || cell.torch.zero_grad == ZeroGrad::AfterStep {
            return Vec::new();
        }
        let mut changed = cell.clone();
        changed.torch.zero_grad = ZeroGrad::AfterStep;
        vec![changed]
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.torch.zero_grad = from.torch.zero_grad,
    price: |_| Price::free(),
    meaning: |_| "gradients are released after the step".into(),
};
