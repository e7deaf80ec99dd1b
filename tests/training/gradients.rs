//! Every trained tensor, and nothing else, gets a gradient.

use std::collections::BTreeSet;

use expctl::arch::{Family, Preset};
use expctl::cell::{Cell, Dtype, TargetModules};

use crate::setup::{Training, cell, turn};

/// The adapters' tensors on linear layers of these names.
fn adapters(modules: &[&str]) -> BTreeSet<String> {
    let config = Preset::named("tiny").expect("a preset").config();
    let mut names = BTreeSet::new();
    for tensor in config.weights() {
        let module = tensor.name.trim_end_matches(".weight");
        if modules.iter().any(|name| module.ends_with(&format!(".{name}"))) {
            names.extend(["A", "B"].map(|factor| format!("{module}.lora_{factor}.weight")));
        }
    }
    names
}

/// The first two steps: B starts at zero, so that A has a gradient of zeros at the first.
fn assert_trains(cell: &Cell, trained: &BTreeSet<String>) {
    let mut training = Training::new(cell);
    for step in 0..2 {
        training.step(step);
        let gradients = training.gradients();
        assert!(gradients.keys().eq(trained), "{:?}: {:?}", cell.dtype, gradients.keys());
        for (name, values) in gradients {
            let what = format!("{name} at step {step} in {:?}", cell.dtype);
            assert!(values.iter().all(|value| value.is_finite()), "{what} is not finite");
            let zeros = values.iter().all(|&value| value == 0.0);
            assert_eq!(zeros, step == 0 && name.ends_with("lora_A.weight"), "{what}");
        }
        training.trainer.release_gradients();
    }
}

#[test]
fn every_adapter_has_a_gradient_at_both_of_the_first_steps() {
    let _turn = turn();
    for dtype in [
        Dtype::Float32,
        Dtype::Float16,
        Dtype::Bfloat16,
        Dtype::Int8,
        Dtype::Int4,
    ] {
        assert_trains(&Cell { dtype, ..cell() }, &adapters(&Family::Llama.target_modules()));
        let listed = ["q_proj", "down_proj"];
        let target_modules = Some(TargetModules::Names(listed.map(String::from).to_vec()));
        let cell = Cell {
            dtype,
            target_modules,
            ..cell()
        };
        assert_trains(&cell, &adapters(&listed));
    }
}

#[test]
fn every_weight_has_a_gradient_with_rank_0() {
    let _turn = turn();
    let config = Preset::named("tiny").expect("a preset").config();
    let weights = config.weights().into_iter().map(|tensor| tensor.name).collect();
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
        let cell = Cell {
            dtype,
            rank: 0,
            learning_rate: 1e-3,
            ..cell()
        };
        assert_trains(&cell, &weights);
    }
}
