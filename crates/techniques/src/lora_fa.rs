//! LoRA-FA: adapters that train B alone, so that nothing is kept for A's gradient.

use cell::Cell;
use options::LoraATraining;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};
use super::trainable::trainable_share;

pub(super) const LORA_FA: Technique = Technique {
    key: "lora_fa",
    does: "Freezes LoRA's A, so its gradient, its optimizer state and the layer's input are not kept.",
    avoid: "Where the rank is small already: half of the adapter's weights are no longer trained.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| match (cell.rank, cell.lora_fa) {
        (0, _) | (_, LoraATraining::Frozen) => Vec::new(),
        _ if !cell.adapter.heeds("lora_fa") => Vec::new(),
        // Its start values have no frozen A.
        _ if cell.lora.init_lora_weights.changes_weight() => Vec::new(),
        _ => vec![Cell {
            lora_fa: LoraATraining::Frozen,
            ..cell.clone()
        }],
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.lora_fa = from.lora_fa,
    price: |change| Price::new(Harm::Capacity, 1.0 - trainable_share(change)),
    meaning: |_| "LoRA's A is frozen, B alone is trained".into(),
};
