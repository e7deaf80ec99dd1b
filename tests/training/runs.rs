//! Whole runs: equal seeds give equal bytes, the loss falls, and numbers that leave the range end a run with a reason.

use expctl::cell::{Cell, Data, Dtype};
use expctl::records::Step;
use expctl::trace::Category;
use expctl::train::TrainError;

use crate::setup::{Run, cell, turn};

/// Trains on the sample text.
fn on_text() -> Cell {
    Cell {
        data: Data::Sample,
        max_seq_length: 64,
        ..cell()
    }
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let _turn = turn();
    for dtype in [Dtype::Float32, Dtype::Int4] {
        let cell = Cell {
            dtype,
            lora_dropout: 0.1,
            gradient_accumulation_steps: 2,
            ..on_text()
        };
        let numbers = |run: &Run| {
            let of_step = |step: &Step| {
                let allocated = (step.allocated_bytes, step.allocated_peak_bytes);
                (step.loss.to_bits(), step.gradient_norm.to_bits(), allocated)
            };
            run.steps.iter().map(of_step).collect::<Vec<_>>()
        };
        let (first, second) = (Run::of(&cell).expect("a run"), Run::of(&cell).expect("a run"));
        assert_eq!(first.steps.len(), 5);
        assert_eq!(numbers(&first), numbers(&second), "{dtype:?}");
        assert!(first.adapter.is_some() && first.adapter == second.adapter, "{dtype:?}");
        let bytes = |run: &Run| {
            let of = &run.measured;
            let by_category = of.allocated_peak_by_category.iter();
            let tensors: Vec<_> = by_category.filter(|(name, _)| *name != Category::Host.name()).collect();
            let moment = (&of.allocated_peak_phase, &of.allocated_peak_module);
            let figures = (of.allocated_peak_bytes, of.allocated_mean_bytes);
            format!("{figures:?} {moment:?} {tensors:?} {:?}", of.allocated_peak_in_phase)
        };
        assert!(first.measured.allocated_peak_bytes > Some(0));
        assert_eq!(bytes(&first), bytes(&second), "{dtype:?}");

        let other = Run::of(&Cell { seed: 1, ..cell }).expect("a run");
        assert_ne!(numbers(&first), numbers(&other), "{dtype:?}");
        assert_ne!(first.adapter, other.adapter, "{dtype:?}");
    }
}

#[test]
fn threads_change_no_byte() {
    let _turn = turn();
    for (dtype, rank) in [
        (Dtype::Float32, 0),
        (Dtype::Bfloat16, 4),
        (Dtype::Int4, 4),
        (Dtype::Int8, 4),
    ] {
        let cell = Cell {
            dtype,
            rank,
            lora_dropout: if rank > 0 { 0.1 } else { 0.0 },
            max_steps: Some(3),
            ..on_text()
        };
        let with_threads = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let run = pool.expect("a pool").install(|| Run::of(&cell)).expect("a run");
            let of_step = |step: &expctl::records::Step| (step.loss.to_bits(), step.gradient_norm.to_bits());
            (run.steps.iter().map(of_step).collect::<Vec<_>>(), run.adapter)
        };
        let one = with_threads(1);
        for threads in [2, 3, 5] {
            assert!(with_threads(threads) == one, "{dtype:?}, {threads} threads");
        }
    }
}

#[test]
fn the_loss_falls() {
    let _turn = turn();
    // Adapters can win little with a frozen random head: its logits stay small.
    for (dtype, rank, fall) in [(Dtype::Float32, 0, 1.0), (Dtype::Int4, 8, 0.05)] {
        let cell = Cell {
            dtype,
            rank,
            learning_rate: 3e-3,
            max_steps: Some(60),
            ..on_text()
        };
        let run = Run::of(&cell).expect("a run");
        let losses = run.losses();
        assert_eq!(losses.len(), 60);
        let (measured, mean) = (run.measured, losses[50..].iter().sum::<f64>() / 10.0);
        let (first, last) = (measured.loss_first, measured.loss_last);
        assert_eq!((first, last), (losses[0], losses[59]));
        assert!(
            last < first - fall && mean < first - fall,
            "{dtype:?}, rank {rank}: from {first} to {last}, {mean} over the last ten"
        );
    }
}

#[test]
fn numbers_that_leave_the_range_are_an_error_that_names_the_step() {
    let _turn = turn();
    for rank in [0, 16] {
        let cell = Cell {
            dtype: Dtype::Float16,
            rank,
            learning_rate: 10.0,
            max_steps: Some(20),
            ..on_text()
        };
        match Run::of(&cell).map(|run| run.losses()) {
            Err(error @ TrainError::NotFinite { step, .. }) => {
                assert!(step >= 2, "{error}");
                assert!(error.to_string().contains(&format!("step {step}")), "{error}");
            }
            other => panic!("rank {rank}: {other:?}"),
        }
    }
}
