//! Adapters in 16 bits, and with them their gradients and the optimizer's states.

use cell::Cell;
use options::FloatDtype;

use super::native::native_half;
use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const ADAPTER_DTYPE: Technique = Technique {
    key: "adapter_dtype",
    does: "Holds adapters in 16 bits, and with them their gradients and optimizer states.",
    avoid: "With learning rates so small that 8 bits of significand round updates away.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    // Also where every weight is trained: the rank may change as well.
    steps: |cell, _| match cell.adapter_dtype {
        // DeepSpeed casts adapters with the model.
        _ if !cell.adapter.heeds("adapter_dtype") || cell.is_deepspeed() => Vec::new(),
        FloatDtype::Float32 => vec![Cell {
            adapter_dtype: native_half(cell),
            ..cell.clone()
        }],
        _ => Vec::new(),
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.adapter_dtype = from.adapter_dtype,
    price: |change| {
        let (from, to) = (change.from.adapter_dtype.bits(), change.to.adapter_dtype.bits());
        Price::new(Harm::StatePrecision, 1.0 - f64::from(to) / f64::from(from))
    },
    meaning: |change| {
        format!(
            "adapters and their optimizer states in {} bits",
            change.to.adapter_dtype.bits()
        )
    },
};
