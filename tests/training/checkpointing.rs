//! Recomputing blocks changes memory and time, and no bit of what is computed.

use std::collections::BTreeMap;

use expctl::cell::{Cell, Checkpointing, Dtype};

use crate::setup::{Training, cell, turn};

/// Loss and gradients of the first two steps, in bits.
fn two_steps(cell: &Cell) -> Vec<(u64, BTreeMap<String, Vec<u32>>)> {
    let mut training = Training::new(cell);
    (0..2)
        .map(|step| {
            let loss = training.step(step).loss;
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect();
            let gradients = training
                .gradients()
                .into_iter()
                .map(|(name, values)| (name, bits(values)))
                .collect();
            training.trainer.release_gradients();
            (loss.to_bits(), gradients)
        })
        .collect()
}

#[test]
fn checkpointing_gives_the_same_bits() {
    let _turn = turn();
    for (dtype, rank) in [(Dtype::Float32, 4), (Dtype::Float32, 0), (Dtype::Int4, 4)] {
        let dropouts: &[f64] = if rank > 0 { &[0.0, 0.1] } else { &[0.0] };
        for &lora_dropout in dropouts {
            let cell = Cell {
                dtype,
                rank,
                lora_dropout,
                ..cell()
            };
            let want = two_steps(&cell);
            for gradient_checkpointing in [
                Checkpointing::Every(2),
                Checkpointing::First(1),
                Checkpointing::Layers(vec![1]),
                Checkpointing::Full,
            ] {
                let what = format!("{dtype:?}, rank {rank}, dropout {lora_dropout}, {gradient_checkpointing:?}");
                let got = two_steps(&Cell {
                    gradient_checkpointing,
                    ..cell.clone()
                });
                assert!(got == want, "{what}");
            }
        }
    }
}
