//! Base weights in fewer bits.

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};
use crate::options::Dtype;
use crate::spec::cell::Cell;
use crate::torch::gpu::{ComputeCapability, Gpu};

/// bfloat16 is computed since Ampere.
const AMPERE: ComputeCapability = ComputeCapability(8, 0);

pub(super) const DTYPE: Technique = Technique {
    key: "dtype",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        let gpu = cell.gpu.as_deref().and_then(|name| Gpu::named(name).ok());
        let is_old = gpu.is_some_and(|gpu| gpu.capability < AMPERE);
        let half = if is_old { Dtype::Float16 } else { Dtype::Bfloat16 };
        let fewer = [half, Dtype::Int8, Dtype::Int4].into_iter();
        let fewer = fewer.filter(|dtype| dtype.bits() < cell.dtype.bits());
        fewer.map(|dtype| Cell { dtype, ..cell.clone() }).collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.dtype = from.dtype,
    price: |change| {
        let (from, to) = (change.from.dtype.bits(), change.to.dtype.bits());
        Price::new(Harm::WeightPrecision, 1.0 - f64::from(to) / f64::from(from))
    },
    meaning: |change| match change.to.dtype {
        Dtype::Int4 => "base weights in NF4".into(),
        dtype => format!("base weights in {} bits", dtype.bits()),
    },
};
