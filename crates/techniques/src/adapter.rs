//! LoRA in place of a method that keeps more.

use cell::Cell;
use options::Adapter;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const ADAPTER: Technique = Technique {
    key: "adapter",
    does: "Trains LoRA in place of DoRA, which keeps a magnitude and a norm for each row.",
    avoid: "At small ranks where DoRA's accuracy is the point of the experiment.",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    // Methods with other weights are another study.
    steps: |cell, _| match (cell.rank, cell.adapter) {
        _ if cell.init_adapter.is_some() => Vec::new(),
        (1.., Adapter::Dora) => vec![Cell {
            adapter: Adapter::Lora,
            ..cell.clone()
        }],
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.adapter = from.adapter,
    price: |_| Price::new(Harm::Algorithm, 1.0),
    meaning: |change| format!("{} adapters", change.to.adapter.name()),
};
