//! The optimizers other than AdamW, in training.

use expctl::cell::{Cell, Optimizer};

use crate::setup::{Training, cell, turn};

fn with(optim: Optimizer, rank: usize, learning_rate: f64) -> Cell {
    Cell {
        optim,
        rank,
        learning_rate,
        max_steps: Some(30),
        ..cell()
    }
}

/// The mean of the last five losses, over the first.
fn fall(cell: &Cell) -> f64 {
    let losses = Training::new(cell).losses(30);
    losses[25..].iter().sum::<f64>() / 5.0 / losses[0]
}

#[test]
fn the_loss_falls_as_with_adamw() {
    let _turn = turn();
    // A step that comes back from a basis is shorter than AdamW's, and GaLore's a quarter of that: hence the rates.
    let low = |optim, rank, optim_rank, gap, rate| Cell {
        optim_rank: Some(optim_rank),
        update_proj_gap: Some(gap),
        ..with(optim, rank, rate)
    };
    let full = fall(&with(Optimizer::Adamw, 0, 2e-3));
    let lora = fall(&with(Optimizer::Adamw, 8, 1e-2));
    for (cell, adamw) in [
        (low(Optimizer::Galore, 0, 16, 10, 3e-2), full),
        (low(Optimizer::Rsvd, 0, 16, 5, 1e-2), full),
        (low(Optimizer::Galore, 8, 4, 10, 8e-2), lora),
        (low(Optimizer::Rsvd, 8, 4, 10, 2e-2), lora),
        // Every element moves by the whole rate.
        (with(Optimizer::Lion, 0, 3e-4), full),
        (with(Optimizer::Lion, 8, 2e-3), lora),
        (with(Optimizer::Sgd, 0, 1.0), full),
        (with(Optimizer::Sgd, 8, 1.0), lora),
        (with(Optimizer::Adafactor, 0, 2e-3), full),
        (with(Optimizer::Adafactor, 8, 1e-2), lora),
        (with(Optimizer::Adamw8bit, 0, 2e-3), full),
    ] {
        let got = fall(&cell);
        let what = format!("{:?}, rank {}: {got}, AdamW {adamw}", cell.optim, cell.rank);
        assert!(adamw < 0.98 && got < 1.0 - 0.25 * (1.0 - adamw), "{what}");
    }
}

#[test]
fn every_key_of_theirs_moves_the_losses() {
    let _turn = turn();
    type Change = fn(&mut Cell);
    let losses = |cell: &Cell| Training::new(cell).losses(4);
    for (optim, changes) in [
        (
            Optimizer::Rsvd,
            vec![
                ("optim_rank", (|cell| cell.optim_rank = Some(2)) as Change),
                ("update_proj_gap", |cell| cell.update_proj_gap = Some(1)),
                ("weight_decay", |cell| cell.weight_decay = 0.5),
                ("adam_beta1", |cell| cell.adam_beta1 = 0.5),
                ("adam_beta2", |cell| cell.adam_beta2 = Some(0.5)),
                ("adam_epsilon", |cell| cell.adam_epsilon = 1e-2),
            ],
        ),
        (
            Optimizer::Galore,
            vec![
                ("optim_rank", (|cell| cell.optim_rank = Some(2)) as Change),
                ("update_proj_gap", |cell| cell.update_proj_gap = Some(1)),
                ("galore_scale", |cell| cell.galore_scale = Some(0.5)),
            ],
        ),
        (
            Optimizer::Lion,
            vec![
                ("weight_decay", (|cell| cell.weight_decay = 0.5) as Change),
                ("adam_beta1", |cell| cell.adam_beta1 = 0.5),
                ("adam_beta2", |cell| cell.adam_beta2 = Some(0.999)),
            ],
        ),
        (
            Optimizer::Sgd,
            vec![("weight_decay", (|cell| cell.weight_decay = 0.5) as Change)],
        ),
        (
            Optimizer::Adafactor,
            vec![("weight_decay", (|cell| cell.weight_decay = 0.5) as Change)],
        ),
    ] {
        let base = with(optim, 0, 1e-3);
        for (key, change) in changes {
            let mut changed = base.clone();
            change(&mut changed);
            assert_ne!(losses(&changed)[3], losses(&base)[3], "{optim:?}, {key}");
        }
        assert_eq!(losses(&base), losses(&base), "the same cell, the same losses");
    }
}
