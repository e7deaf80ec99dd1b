//! Twenty steps of the optimizers that have golden runs of their own.

use expctl::spec::cell::{Cell, Dtype, LrScheduler, Optimizer};

use crate::runs::{adapter_cell, assert_run, cell};

/// The optimizers with the model that has their runs.
const MODELS: [(Optimizer, &str); 2] = [
    (Optimizer::Sgd, "tiny_llama_sgd"),
    (Optimizer::Adafactor, "tiny_llama_adafactor"),
];

#[test]
fn twenty_steps_in_float32() {
    for (optim, model) in MODELS {
        let run = |name, cell| assert_run(model, name, &Cell { optim, ..cell }, 1e-4);
        run("float32", adapter_cell(model));
        run("full", cell(model, 0));
        let linear = Cell {
            lr_scheduler_type: LrScheduler::Linear,
            warmup_ratio: 0.1,
            weight_decay: 0.1,
            max_grad_norm: 0.5,
            ..adapter_cell(model)
        };
        run("linear", linear);
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
