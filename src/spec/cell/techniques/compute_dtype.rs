//! Products of 4-bit weights in 16 bits.

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};
use crate::options::{Dtype, Stack};
use crate::spec::cell::Cell;

pub(super) const COMPUTE_DTYPE: Technique = Technique {
    key: "bnb_4bit_compute_dtype",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| match (cell.stack, cell.dtype, cell.bnb_4bit_compute_dtype) {
        (Stack::Torch, Dtype::Int4, Dtype::Float32) => {
            vec![Cell {
                bnb_4bit_compute_dtype: Dtype::Bfloat16,
                ..cell.clone()
            }]
        }
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.bnb_4bit_compute_dtype = from.bnb_4bit_compute_dtype,
    // Products of float32 become 16 bits.
    price: |_| Price::new(Harm::StatePrecision, 0.5),
    meaning: |_| "4-bit weights are multiplied in bfloat16".into(),
};
