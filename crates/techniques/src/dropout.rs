//! Adapters without dropout, whose masks are not kept.

use cell::Cell;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const DROPOUT: Technique = Technique {
    key: "lora_dropout",
    does: "Trains adapters without dropout, so no mask and no dropped copy of the input is kept.",
    avoid: "On small data sets, which adapters learn by heart without it.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        let has_dropout = cell.method().is_some() && cell.lora_dropout > 0.0;
        has_dropout
            .then(|| Cell {
                lora_dropout: 0.0,
                ..cell.clone()
            })
            .into_iter()
            .collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.lora_dropout = from.lora_dropout,
    price: |change| Price::new(Harm::Algorithm, change.from.lora_dropout - change.to.lora_dropout),
    meaning: |_| "adapters without dropout".into(),
};
