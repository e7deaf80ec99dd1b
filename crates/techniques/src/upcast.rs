//! Weights that are not quantised, left in their format.

use cell::Cell;
use options::Upcast;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const UPCAST: Technique = Technique {
    key: "upcast",
    does: "Leaves weights that are not quantised in their 16 bits, where PEFT casts them to float32.",
    avoid: "Where training diverges: norms in float32 are the more stable ones.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| match cell.upcast {
        Upcast::Peft => vec![Cell {
            upcast: Upcast::None,
            ..cell.clone()
        }],
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.upcast = from.upcast,
    // Float32 becomes 16 bits.
    price: |_| Price::new(Harm::StatePrecision, 0.5),
    meaning: |_| "embeddings, norms and head stay in 16 bits".into(),
};
