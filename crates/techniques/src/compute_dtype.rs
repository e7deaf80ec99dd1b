//! Products of 4-bit weights in 16 bits.

use cell::Cell;
use options::{Dtype, FloatDtype};

use super::native::{EMULATED, native_half};
use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const COMPUTE_DTYPE: Technique = Technique {
    key: "bnb_4bit_compute_dtype",
    does: "Multiplies 4-bit weights in 16 bits.",
    avoid: "On GPUs that only emulate the format.",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        let (own, native) = (cell.bnb_4bit_compute_dtype, native_half(cell));
        let is_emulated = (own, native) == (FloatDtype::Bfloat16, FloatDtype::Float16);
        match cell.dtype {
            Dtype::Int4 if own == FloatDtype::Float32 || is_emulated => {
                vec![Cell {
                    bnb_4bit_compute_dtype: native,
                    ..cell.clone()
                }]
            }
            _ => Vec::new(),
        }
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.bnb_4bit_compute_dtype = from.bnb_4bit_compute_dtype,
    price: |change| match change.from.bnb_4bit_compute_dtype {
        // Products of float32 become 16 bits.
        FloatDtype::Float32 => Price::new(Harm::StatePrecision, 0.5),
        _ => Price::free(),
    },
    meaning: |change| match change.from.bnb_4bit_compute_dtype {
        FloatDtype::Float32 => "4-bit weights are multiplied in 16 bits".into(),
        _ => EMULATED.into(),
    },
};
