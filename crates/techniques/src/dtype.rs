//! Base weights in fewer bits.

use arch::Kind;
use cell::Cell;
use options::Dtype;

use super::native::{EMULATED, native_half};
use super::price::{Harm, Price};
use super::technique::Technique;
use super::trainable::trains;

pub(super) const DTYPE: Technique = Technique {
    key: "dtype",
    does: "Stores the base weights in fewer bits.",
    avoid: "Where weights are a small part of the peak, or where every weight is trained.",
    follows: &["bnb_4bit_compute_dtype", "llm_int8_threshold"],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, model| {
        let half = Dtype::from(native_half(cell));
        // Gradients in float16 cannot be scaled, so no weight is trained in it.
        let half = (cell.method().is_some() || half == Dtype::Bfloat16).then_some(half);
        let fewer = half.into_iter().chain([Dtype::Int8, Dtype::Int4]);
        let fewer = fewer.filter(|dtype| {
            let is_native = cell.dtype == Dtype::Bfloat16 && *dtype == Dtype::Float16;
            dtype.bits() < cell.dtype.bits() || is_native
        });
        // A weight that is trained is dense.
        let trains_matrix = trains(cell, model, |_, module| module.kind == Kind::Linear);
        let fewer = fewer.filter(|dtype| !(dtype.is_quantised() && trains_matrix));
        fewer.map(|dtype| Cell { dtype, ..cell.clone() }).collect()
    },
    settle: |from, to| {
        // A cell that was not of 4 bits has chosen no format for their products.
        if from.dtype != Dtype::Int4 && to.dtype == Dtype::Int4 {
            to.bnb_4bit_compute_dtype = native_half(from);
        }
        if to.dtype != Dtype::Int8 {
            to.llm_int8_threshold = None;
        }
    },
    copy: |from: &Cell, to: &mut Cell| {
        to.dtype = from.dtype;
        to.bnb_4bit_compute_dtype = from.bnb_4bit_compute_dtype;
        to.llm_int8_threshold = from.llm_int8_threshold;
    },
    price: |change| {
        let (from, to) = (change.from.dtype.bits(), change.to.dtype.bits());
        let lost = |from: u32, to: u32| 1.0 - f64::from(to) / f64::from(from);
        let weights = Price::new(Harm::WeightPrecision, lost(from, to));
        let trained = |cell: &Cell| cell.model_options().hidden_dtype().bits();
        match (from == to, change.to.rank) {
            (true, _) => Price::free(),
            // Gradients and the optimizer's states have the format of the weights that are trained.
            (false, 0) => weights + Price::new(Harm::StatePrecision, lost(trained(change.from), trained(change.to))),
            (false, _) => weights,
        }
    },
    meaning: |change| match (change.from.dtype.bits() == change.to.dtype.bits(), change.to.dtype) {
        (true, _) => EMULATED.into(),
        (false, Dtype::Int4) => "base weights in NF4".into(),
        (false, dtype) if change.to.method().is_none() && !dtype.is_quantised() => {
            format!("weights, gradients and optimizer states in {} bits", dtype.bits())
        }
        (false, dtype) => format!("base weights in {} bits", dtype.bits()),
    },
};
