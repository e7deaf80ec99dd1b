//! Micro-batches padded to their longest sample.

use cell::Cell;
use options::Padding;

use super::price::Price;
use super::technique::{Technique, nothing_follows};

pub(super) const PADDING: Technique = Technique {
    key: "padding",
    does: "Pads a micro-batch to its longest sample instead of the maximum length.",
    avoid: "Where all samples have one length, or where a compiler needs one shape.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| match cell.padding {
        Padding::MaxLength if !cell.packing && !cell.data.is_even() => vec![Cell {
            padding: Padding::Longest,
            ..cell.clone()
        }],
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.padding = from.padding,
    price: |_| Price::free(),
    meaning: |_| "micro-batches as long as their longest sample".into(),
};
