//! Twenty steps in formats beside the usual ones: FP4, torch.autocast, PEFT's preparation for k-bit training, and adapters in
//! bfloat16.

use expctl::cell::{Autocast, Cell, Dtype, FloatDtype, QuantType, Upcast};

use crate::runs::{adapter_cell, assert_run, cell};

const MODEL: &str = "tiny_llama_precision";

#[test]
fn twenty_steps_of_mixed_precision() {
    let autocast = Cell {
        autocast: Autocast::Bfloat16,
        ..adapter_cell(MODEL)
    };
    assert_run(MODEL, "autocast", &autocast, 2e-2);
    let full = Cell {
        autocast: Autocast::Bfloat16,
        ..cell(MODEL, 0)
    };
    assert_run(MODEL, "full_autocast", &full, 2e-2);
}

#[test]
fn twenty_steps_after_the_preparation_for_kbit_training() {
    let kbit = Cell {
        dtype: Dtype::Int4,
        upcast: Upcast::Peft,
        ..adapter_cell(MODEL)
    };
    assert_run(MODEL, "kbit", &kbit, 2e-2);
    let mixed = Cell {
        autocast: Autocast::Bfloat16,
        ..kbit
    };
    assert_run(MODEL, "kbit_autocast", &mixed, 2e-2);
}

#[test]
fn twenty_steps_of_adapters_in_bfloat16() {
    let cell = Cell {
        dtype: Dtype::Bfloat16,
        adapter_dtype: FloatDtype::Bfloat16,
        ..adapter_cell(MODEL)
    };
    assert_run(MODEL, "adapter_bfloat16", &cell, 2e-2);
}

#[test]
fn twenty_steps_of_fp4() {
    let cell = Cell {
        dtype: Dtype::Int4,
        bnb_4bit_quant_type: QuantType::Fp4,
        bnb_4bit_use_double_quant: false,
        ..adapter_cell(MODEL)
    };
    assert_run(MODEL, "fp4", &cell, 2e-2);
}
