//! Neither micro-batches nor their padding change anything but rounding.

use std::collections::BTreeSet;

use expctl::cell::{Cell, Padding};

use crate::setup::{Gradients, Training, cell, distance, turn};

/// The largest difference by rounding in single precision.
const TOLERANCE: f64 = 1e-6;

/// Loss and gradients of the first batch, with adapters that are not zero.
fn first_batch(cell: &Cell) -> (f64, Gradients) {
    let mut training = Training::new(cell);
    training.fill_adapters();
    (training.forward_backward(0), training.gradients())
}

fn assert_same(got: &Cell, want: &Cell, what: &str) {
    let ((got_loss, got), (want_loss, want)) = (first_batch(got), first_batch(want));
    assert!(
        (got_loss - want_loss).abs() <= TOLERANCE * want_loss,
        "{what}: loss {got_loss} against {want_loss}"
    );
    assert!(got.keys().eq(want.keys()), "{what}");
    for (name, want) in &want {
        let distance = distance(&got[name], want);
        assert!(distance <= TOLERANCE, "{what}: {name} is {distance:e} off");
    }
}

/// Cells that differ in what may matter here: what is trained, dropout and padding.
fn cells() -> Vec<(String, Cell)> {
    let mut cells = Vec::new();
    for (rank, lora_dropout) in [(4, 0.0), (4, 0.1), (0, 0.0)] {
        for padding in [Padding::MaxLength, Padding::Longest] {
            let cell = Cell {
                rank,
                lora_dropout,
                padding,
                ..cell()
            };
            cells.push((format!("rank {rank}, dropout {lora_dropout}, {padding:?}"), cell));
        }
    }
    cells
}

#[test]
fn four_micro_batches_of_one_are_a_batch_of_four() {
    let _turn = turn();
    for (what, whole) in cells() {
        let lengths: BTreeSet<u32> = Training::new(&whole).batches[0].micro[0]
            .lengths
            .iter()
            .copied()
            .collect();
        assert!(lengths.len() > 2, "samples of different lengths: {lengths:?}");
        let parts = Cell {
            batch_size: 1,
            gradient_accumulation_steps: 4,
            ..whole.clone()
        };
        assert_same(&parts, &whole, &what);
    }
}

#[test]
fn padding_changes_the_tokens_and_not_the_numbers() {
    let _turn = turn();
    for (what, cell) in cells() {
        let longer = Cell {
            max_seq_length: 40,
            padding: Padding::MaxLength,
            ..cell.clone()
        };
        assert_same(&longer, &cell, &what);
        let tokens = |cell: &Cell| Training::new(cell).batches[0].micro[0].ids.len();
        assert_eq!(tokens(&longer), 4 * 40);
        assert!(tokens(&cell) <= 4 * 24);
    }
}
