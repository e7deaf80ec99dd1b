//! Twenty steps of every optimizer and every adapter, against those of torch and PEFT.

use expctl::cell::{Adapter, Attention, Cell, Loss, Optimizer, Stack};

use crate::runs::{DECODERS, ENCODERS, adapter_cell, assert_run};

/// The model whose golden runs are an optimizer's.
fn golden(optimizer: Optimizer) -> Option<&'static str> {
    match optimizer {
        Optimizer::Adamw => Some("tiny_llama"),
        Optimizer::Lion => Some("tiny_llama_lion"),
        Optimizer::Sgd => Some("tiny_llama_sgd"),
        Optimizer::Adafactor => Some("tiny_llama_adafactor"),
        Optimizer::Adamw8bit => Some("tiny_llama_adamw_8bit"),
        // No release of galore-torch or of a randomised projection is among those that make golden numbers:
        // `optim/low_rank/tests.rs` has them in double precision.
        Optimizer::Galore | Optimizer::Rsvd => None,
        other => panic!("{} is trained with, and has no golden numbers", other.name()),
    }
}

#[test]
fn twenty_steps_of_every_optimizer() {
    for optim in Optimizer::of(Stack::Candle) {
        if let Some(model) = golden(optim) {
            let cell = Cell {
                optim,
                ..adapter_cell(model)
            };
            assert_run(model, "float32", &cell, 1e-4);
        }
    }
}

#[test]
fn twenty_steps_of_every_adapter() {
    for adapter in Adapter::ALL {
        let model = match adapter {
            Adapter::Lora => "tiny_llama",
            Adapter::Dora => "tiny_llama_dora",
            Adapter::Ia3 => "tiny_llama_ia3",
            Adapter::Miss => "tiny_llama_miss",
            Adapter::Vera => "tiny_llama_vera",
            Adapter::Oft => "tiny_llama_oft",
            Adapter::Loha => "tiny_llama_loha",
            Adapter::Lokr => "tiny_llama_lokr",
            Adapter::PromptTuning => "tiny_llama_prompt",
            Adapter::PrefixTuning => "tiny_llama_prefix",
            Adapter::LnTuning => "tiny_llama_ln",
        };
        let cell = adapter_cell(model);
        assert_eq!(cell.adapter, adapter, "{model}");
        assert_run(model, "float32", &cell, 1e-4);
    }
}

/// What is held for the backward pass changes no loss.
#[test]
fn twenty_steps_with_held_scores_and_logits() {
    for model in DECODERS {
        let cell = Cell {
            attn_implementation: Attention::Eager,
            loss: Some(Loss::Full),
            ..adapter_cell(model)
        };
        assert_run(model, "float32", &cell, 1e-4);
    }
    for model in ENCODERS {
        let cell = Cell {
            attn_implementation: Attention::Eager,
            ..adapter_cell(model)
        };
        assert_run(model, "float32", &cell, 1e-4);
    }
}
