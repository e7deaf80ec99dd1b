//! Mixed precision: products in 16 bits beside weights in float32.

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};
use crate::options::{Autocast, Dtype, Stack};
use crate::spec::cell::Cell;

pub(super) const AUTOCAST: Technique = Technique {
    key: "autocast",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| match (cell.stack, cell.autocast, cell.dtype) {
        (Stack::Torch, Autocast::None, Dtype::Float32) => {
            let formats = [Autocast::Bfloat16, Autocast::Float16];
            formats
                .map(|autocast| Cell {
                    autocast,
                    ..cell.clone()
                })
                .into()
        }
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.autocast = from.autocast,
    // Products of float32 become 16 bits.
    price: |_| Price::new(Harm::StatePrecision, 0.5),
    meaning: |change| match change.to.autocast {
        Autocast::None => "products in the weights' format".into(),
        Autocast::Bfloat16 => "products in bfloat16".into(),
        Autocast::Float16 => "products in float16".into(),
    },
};
