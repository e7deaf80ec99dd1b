//! Samples one after the other, without padding.

use cell::Cell;
use options::{Stack, Task};

use super::price::Price;
use super::technique::{Technique, nothing_follows};

pub(super) const PACKING: Technique = Technique {
    key: "packing",
    does: "Lays the samples of a step one after the other in rows without padding; no token sees another sample.",
    avoid: "Where all samples have one length, or with encoders, whose rows have a label each.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        // TRL's rows are full, and a step has more samples: another training, in no less memory.
        let can_pack = cell.stack == Stack::Candle && cell.task == Task::CausalLm;
        match can_pack && !cell.packing && !cell.data.is_even() {
            true => vec![Cell {
                packing: true,
                ..cell.clone()
            }],
            false => Vec::new(),
        }
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.packing = from.packing,
    price: |_| Price::free(),
    meaning: |_| "samples one after the other, without padding".into(),
};
