//! `optim`: optimizers of one update rule, with states of fewer bits, or in managed memory.

use cell::Cell;
use options::Optimizer;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const OPTIMIZER: Technique = Technique {
    key: "optim",
    does: "Keeps the same optimizer's states in fewer bits, or in managed memory.",
    avoid: "With small adapters: their states are a small part of the peak.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        let own = state_bits(cell.optim, cell);
        let same_rule = Optimizer::of(cell.stack).filter(|other| {
            *other != cell.optim && other.update_rule() == cell.optim.update_rule() && state_bits(*other, cell) <= own
        });
        same_rule.map(|optim| Cell { optim, ..cell.clone() }).collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.optim = from.optim,
    price: |change| {
        let (from, to) = (change.from.optim, change.to.optim);
        if from.update_rule() != to.update_rule() {
            return Price::new(Harm::Algorithm, 1.0);
        }
        let (before, after) = (state_bits(from, change.from), state_bits(to, change.from));
        let is_paged = to.is_paged() && !from.is_paged();
        let lost = 1.0 - f64::from(after) / f64::from(before.max(1));
        Price::free() + Price::new(Harm::StatePrecision, lost) + Price::new(Harm::Transfers, f64::from(is_paged))
    },
    meaning: |change| {
        let (from, to) = (change.from.optim, change.to.optim);
        if from.update_rule() != to.update_rule() {
            return "another algorithm, whose learning rate is to be tuned".into();
        }
        let (before, after) = (state_bits(from, change.from), state_bits(to, change.from));
        let bits = after / to.state_numbers().max(1);
        match (before == after, to.is_paged()) {
            (true, false) => "the same states in another kernel".into(),
            (true, true) => "optimizer states in managed memory".into(),
            (false, false) => format!("optimizer states in {bits} bits"),
            (false, true) => format!("optimizer states in {bits} bits, in managed memory"),
        }
    },
};

/// Bits of the state of a trained weight.
fn state_bits(optimizer: Optimizer, cell: &Cell) -> u32 {
    let trained = match cell.rank {
        0 => cell.model_options().hidden_dtype(),
        _ => cell.adapter_dtype.into(),
    };
    optimizer.state_bits(trained.bits())
}
