//! Twenty steps of the optimizers that have golden runs of their own.

use expctl::cell::{Cell, Dtype, LrScheduler, Optimizer};

use crate::runs::{adapter_cell, assert_run, cell, departure};

/// The optimizers with the model that has their runs.
const MODELS: [(Optimizer, &str); 3] = [
    (Optimizer::Sgd, "tiny_llama_sgd"),
    (Optimizer::Adafactor, "tiny_llama_adafactor"),
    (Optimizer::Adamw8bit, "tiny_llama_adamw_8bit"),
];

/// The most that losses with states of 8 bits differ, since a moment that lies between two codes can take either.
const OF_CODES: f64 = 3e-4;

#[test]
fn twenty_steps_in_float32() {
    for (optim, model) in MODELS {
        let run = |name, cell, tolerance| assert_run(model, name, &Cell { optim, ..cell }, tolerance);
        run("float32", adapter_cell(model), 1e-4);
        // The adapter's tensors are too small for codes.
        let is_8bit = optim == Optimizer::Adamw8bit;
        run("full", cell(model, 0), if is_8bit { OF_CODES } else { 1e-4 });
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

/// Losses without codes are further off.
#[test]
fn states_of_8_bits_show_in_the_losses() {
    let model = "tiny_llama_adamw_8bit";
    assert!(departure(model, "full", &cell(model, 0)) > 2.0 * OF_CODES);
}
