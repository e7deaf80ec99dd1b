//! Scales of 4-bit weights, quantised as well.

use cell::Cell;
use options::Dtype;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const DOUBLE_QUANT: Technique = Technique {
    key: "bnb_4bit_use_double_quant",
    does: "Quantises the scales of 4-bit weights as well: 4.13 bits a weight in place of 4.5.",
    avoid: "On a model whose weights are a small part of the peak.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| match (cell.dtype, cell.bnb_4bit_use_double_quant) {
        (Dtype::Int4, false) => vec![Cell {
            bnb_4bit_use_double_quant: true,
            ..cell.clone()
        }],
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.bnb_4bit_use_double_quant = from.bnb_4bit_use_double_quant,
    // 4.5 bits a weight become 4.127 (Dettmers et al. 2023, arXiv:2305.14314).
    price: |_| Price::new(Harm::WeightPrecision, 1.0 - 4.127 / 4.5),
    meaning: |_| "the scales of the 4-bit weights in 8 bits".into(),
};
