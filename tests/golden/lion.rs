//! Twenty steps of Lion.

use expctl::cell::{Cell, Dtype, LrScheduler, Optimizer};

use crate::runs::{adapter_cell, assert_run, cell};

const MODEL: &str = "tiny_llama_lion";

fn assert_lion(name: &str, cell: Cell, tolerance: f64) {
    let optim = Optimizer::Lion;
    assert_run(MODEL, name, &Cell { optim, ..cell }, tolerance);
}

#[test]
fn twenty_steps_in_float32() {
    assert_lion("float32", adapter_cell(MODEL), 1e-4);
    assert_lion("full", cell(MODEL, 0), 1e-4);
    let linear = Cell {
        lr_scheduler_type: LrScheduler::Linear,
        warmup_ratio: 0.1,
        weight_decay: 0.1,
        max_grad_norm: 0.5,
        ..adapter_cell(MODEL)
    };
    assert_lion("linear", linear, 1e-4);
}

#[test]
fn twenty_steps_in_sixteen_bits() {
    for (name, cell) in [("bfloat16", adapter_cell(MODEL)), ("full_bfloat16", cell(MODEL, 0))] {
        let dtype = Dtype::Bfloat16;
        assert_lion(name, Cell { dtype, ..cell }, 2e-2);
    }
}
