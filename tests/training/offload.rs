//! Offloading moves tensors, and changes no bit of what is computed.

use expctl::cell::{Cell, Checkpointing, Dtype, Offload, OffloadedBlocks, Optimizer};

use crate::setup::{Training, cell, turn};

/// Losses and gradients of the first three steps, and the held-out loss, in bits.
pub fn numbers(mut training: Training) -> Vec<u64> {
    let mut numbers = Vec::new();
    for step in 0..3 {
        numbers.push(training.step(step).loss.to_bits());
        let gradients = training.gradients().into_values().flatten();
        numbers.extend(gradients.map(|value| u64::from(value.to_bits())));
        training.trainer.release_gradients();
    }
    let batch = training.batches[0].micro.clone();
    numbers.push(
        training
            .trainer
            .evaluate(batch.into_iter().map(Ok))
            .expect("a loss")
            .loss
            .to_bits(),
    );
    numbers
}

fn weights(weights: OffloadedBlocks) -> Offload {
    Offload {
        weights: Some(weights),
        ..Offload::NONE
    }
}

pub fn parts() -> [Offload; 6] {
    let (embeddings, optimizer, checkpoints) = (true, true, true);
    [
        weights(OffloadedBlocks::Ratio(0.5)),
        weights(OffloadedBlocks::Blocks(vec![0])),
        Offload {
            embeddings,
            ..Offload::NONE
        },
        Offload {
            optimizer,
            ..Offload::NONE
        },
        Offload {
            checkpoints,
            ..Offload::NONE
        },
        Offload {
            weights: Some(OffloadedBlocks::Ratio(1.0)),
            embeddings,
            optimizer,
            checkpoints,
        },
    ]
}

#[test]
fn each_part_and_all_give_the_same_bits() {
    let _turn = turn();
    for (dtype, optim) in [
        (Dtype::Float32, Optimizer::Adamw),
        (Dtype::Bfloat16, Optimizer::Galore),
        (Dtype::Int8, Optimizer::Lion),
        (Dtype::Int8, Optimizer::Sgd),
        (Dtype::Int4, Optimizer::Adafactor),
        (Dtype::Int4, Optimizer::Adamw8bit),
        (Dtype::Int4, Optimizer::Adamw),
    ] {
        let cell = Cell {
            dtype,
            optim,
            gradient_checkpointing: Checkpointing::First(1),
            lora_dropout: 0.1,
            optim_rank: (optim == Optimizer::Galore).then_some(2),
            ..cell()
        };
        let want = numbers(Training::new(&cell));
        for offload in parts() {
            let what = format!("{dtype:?}, {optim:?}, {offload:?}");
            assert!(
                numbers(Training::new(&Cell {
                    offload,
                    ..cell.clone()
                })) == want,
                "{what}"
            );
        }
    }
}

#[test]
fn full_fine_tuning_offloads_the_optimizers_state() {
    let _turn = turn();
    let cell = Cell { rank: 0, ..cell() };
    let offload = Offload {
        optimizer: true,
        ..Offload::NONE
    };
    let offloaded = Training::new(&Cell {
        offload,
        ..cell.clone()
    });
    assert!(numbers(offloaded) == numbers(Training::new(&cell)));
}
