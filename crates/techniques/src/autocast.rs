//! Mixed precision: products in 16 bits beside weights in float32.

use cell::Cell;
use options::{Autocast, Dtype, FloatDtype};

use super::native::{EMULATED, native_half};
use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const AUTOCAST: Technique = Technique {
    key: "autocast",
    does: "Computes products in 16 bits, and keeps the weights in float32.",
    avoid: "On GPUs that only emulate the format, and with weights that have 16 bits already.",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        let native = match native_half(cell) {
            FloatDtype::Float16 => Autocast::Float16,
            FloatDtype::Bfloat16 | FloatDtype::Float32 => Autocast::Bfloat16,
        };
        let is_emulated = (cell.autocast, native) == (Autocast::Bfloat16, Autocast::Float16);
        let has_none = (cell.autocast, cell.model_options().hidden_dtype()) == (Autocast::None, Dtype::Float32);
        (is_emulated || has_none)
            .then(|| Cell {
                autocast: native,
                ..cell.clone()
            })
            .into_iter()
            .collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.autocast = from.autocast,
    price: |change| match (change.from.autocast, change.to.autocast) {
        // Products of float32 become 16 bits.
        (Autocast::None, _) => Price::new(Harm::StatePrecision, 0.5),
        _ => Price::free(),
    },
    meaning: |change| match (change.from.autocast, change.to.autocast) {
        (_, Autocast::None) => "products in the weights' format".into(),
        (Autocast::None, Autocast::Bfloat16) => "products in bfloat16".into(),
        (Autocast::None, Autocast::Float16) => "products in float16".into(),
        _ => EMULATED.into(),
    },
};
