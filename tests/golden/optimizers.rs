//! Twenty steps of the optimizers that have golden runs of their own.

use expctl::spec::cell::{Cell, Dtype, LrScheduler, Optimizer};

use crate::runs::{adapter_cell, assert_run, cell};

/// The optimizers with the model that has their runs.
const MODELS: [(Optimizer, &str); 3] = [
    (Optimizer::Sgd, "tiny_llama_sgd"),
    (Optimizer::Adafactor, "tiny_llama_adafactor"),
    (Optimizer::Adamw8bit, "tiny_llama_adamw_8bit"),
];

#[test]
fn twenty_steps_in_float32() {
    for (optim, model) in MODELS {
        let run = |name, cell, tolerance| assert_run(model, name, &Cell { optim, ..cell }, tolerance);
        run("float32", adapter_cell(model), 1e-4);
        // A moment that lies between two codes can take either. The adapter's tensors are too small for codes.
        let of_codes = if optim == Optimizer::Adamw8bit { 1e-2 } else { 1e-4 };
        run("full", cell(model, 0), of_codes);
        let linear = Cell {
            lr_scheduler_type: LrScheduler::Linear,
            warmup_ratio: 0.1,
            weight_decay: 0.1,
            max_grad_norm: 0.5,
            ..adapter_cell(model)
        };
        run("linear", linear, 1e-4);
    }
}

#[test]
fn twenty_steps_in_sixteen_bits() {
    for (optim, model) in MODELS {
        let cell = Cell {
            optim,
            dtype: Dtype::Bfloat16,
            ..adapter_cell(model)
        };
        assert_run(model, "bfloat16", &cell, 2e-2);
    }
}
