//! Training some layers: the backward pass ends with the lowest of them, and nothing is kept below.

use expctl::cell::{Cell, Checkpointing, Measure, Offload, OffloadedBlocks};
use expctl::options::NamePattern;

use crate::setup::{Run, Training, cell, turn};

/// A cell that trains the weights of these patterns.
fn training(patterns: &[&str]) -> Cell {
    let patterns = patterns.iter().map(|text| NamePattern::new(text).expect("a pattern"));
    Cell {
        rank: 0,
        trainable: Some(patterns.collect()),
        ..cell()
    }
}

/// What trains the second block, and what trains things below it.
const SOME: [&str; 1] = [r"layers\.1\..*"];
const MORE: [&str; 2] = [SOME[0], r"layers\.0\.input_layernorm"];

#[test]
fn gradients_are_the_same_bits_with_and_without_what_is_below() {
    let _turn = turn();
    let passes = |cell: &Cell| {
        let mut training = Training::new(cell);
        let loss = training.forward_backward(0);
        (loss.to_bits(), training.gradients())
    };
    let (loss, more) = passes(&training(&MORE));
    for gradient_checkpointing in [Checkpointing::None, Checkpointing::Full] {
        let some = Cell {
            gradient_checkpointing,
            ..training(&SOME)
        };
        let (same, some) = passes(&some);
        assert_eq!(same, loss);
        assert_eq!(some.len(), 9, "the weights of a block");
        for (name, values) in some {
            assert!(values == more[&name], "{name}");
        }
    }
}

#[test]
fn blocks_below_the_lowest_trained_one_keep_nothing() {
    let _turn = turn();
    let kept = |cell: Cell| {
        let cell = Cell {
            measure: Measure::Profile,
            max_steps: None,
            ..cell
        };
        Run::of(&cell)
            .expect("a run")
            .measured
            .profile
            .expect("a profile")
            .activation_bytes
    };
    let of_blocks = |blocks: Vec<usize>| {
        kept(Cell {
            layers_to_transform: Some(blocks),
            ..cell()
        })
    };
    let (both, last) = (of_blocks(vec![0, 1]), of_blocks(vec![1]));
    assert_eq!(of_blocks(vec![0]), both, "the backward pass comes to both blocks");
    assert!(last < both, "{last} of {both} bytes");
    assert_eq!(kept(training(&SOME)), last);
    // The final norm's input, which every backward pass begins with.
    let end = kept(training(&["model.norm"]));
    assert_eq!(both - last, last - end, "the two blocks keep as much");
}

/// Frozen weights of a block that nothing comes back to leave the device after the forward pass.
#[test]
fn frozen_weights_wait_in_the_hosts_memory_beside_trained_ones() {
    let _turn = turn();
    for patterns in [&SOME[..], &["model.norm"], &MORE] {
        let resident = training(patterns);
        let offloaded = Cell {
            offload: Offload {
                weights: Some(OffloadedBlocks::Ratio(1.0)),
                ..Offload::NONE
            },
            ..resident.clone()
        };
        assert_eq!(offloaded.validate(), Ok(()));
        let losses = |cell: &Cell| Training::new(cell).losses(3);
        assert_eq!(losses(&offloaded), losses(&resident), "{patterns:?}");
    }
}
