//! `measure: profile`: components against arithmetic, and against the whole training.

use expctl::arch::Preset;
use expctl::cell::{Cell, Checkpointing, Data, Measure, Optimizer, Synthetic, Task};
use expctl::records::Profile;

use crate::ledger::Bytes;
use crate::setup::{Run, cell, turn};

fn profiled(change: impl FnOnce(&mut Cell)) -> Cell {
    let mut cell = Cell {
        measure: Measure::Profile,
        max_steps: None,
        data: Data::Synthetic(Synthetic::default()),
        ..cell()
    };
    change(&mut cell);
    cell
}

fn profile(cell: &Cell) -> Profile {
    Run::of(cell).expect("a run").measured.profile.expect("a profile")
}

#[test]
fn components_are_what_arithmetic_says() {
    let _turn = turn();
    let config = Preset::named("tiny").expect("a preset").config();
    let lora = profiled(|_| ());
    let full = profiled(|cell| (cell.rank, cell.optim) = (0, Optimizer::Rsvd));
    for cell in [lora, full] {
        let what = format!("{:?}, rank {}", cell.optim, cell.rank);
        let want = Bytes::of(&cell, &config);
        let run = Run::of(&cell).expect("a run");
        let got = run.measured.profile.clone().expect("a profile");
        assert_eq!(got.parameter_bytes, want.parameter, "{what}");
        assert_eq!(got.adapter_bytes, (cell.rank > 0).then_some(want.adapter), "{what}");
        assert_eq!(got.optimizer_state_bytes, want.optimizer_state, "{what}");
        assert_eq!(got.gradient_bytes, want.gradient, "{what}");
        let components = want.parameter + want.adapter + want.optimizer_state + want.gradient;
        assert_eq!(got.total_bytes, components + got.activation_bytes, "{what}");
        // Beside the components, only what the model keeps for its positions is alive after the backward pass.
        let rest = got.allocated_bytes - components;
        assert!(rest < 64 << 10, "{what}: {rest}");
        assert!(got.peak_bytes >= got.allocated_bytes, "{what}");
        let outputs = 4 * config.module_outputs(cell.batch_size, cell.max_seq_length);
        assert_eq!(got.module_outputs_bytes, Some(outputs), "{what}");

        let measured = run.measured;
        assert_eq!(measured.allocated_peak_bytes, Some(got.peak_bytes), "{what}");
        assert_eq!(measured.steps, 2);
        assert_eq!(run.steps[1].allocated_bytes, Some(got.allocated_bytes));
        assert_eq!(run.steps[1].learning_rate, 0.0, "the second moves nothing");
        assert!(
            measured.loss_last < measured.loss_first,
            "the first does, on the same data"
        );
        assert!(run.steps[1].gradient_norm > 0.0);
    }
}

/// Every weight has one gradient, biases and norms too.
#[test]
fn an_encoders_gradients_are_as_large_as_its_weights() {
    let _turn = turn();
    for model in ["tests/fixtures/tiny_distilbert", "tests/fixtures/tiny_bert"] {
        let cell = profiled(|cell| {
            (cell.model, cell.task) = (model.into(), Task::SequenceClassification);
            (cell.num_labels, cell.rank, cell.max_seq_length) = (3, 0, 16);
        });
        let measured = Run::of(&cell).expect("a run").measured;
        let got = measured.profile.expect("a profile");
        assert_eq!(got.parameter_bytes, 4 * measured.parameter_count, "{model}");
        assert_eq!(got.gradient_bytes, 4 * measured.trainable_count, "{model}");
        assert_eq!(got.optimizer_state_bytes, 2 * got.gradient_bytes, "{model}");
        // The bytes that a sample keeps do not depend on the number of samples.
        let of_one = profile(&Cell {
            batch_size: 1,
            ..cell.clone()
        });
        assert_eq!(got.activation_bytes, 4 * of_one.activation_bytes, "{model}");
    }
}

#[test]
fn activations_grow_with_the_batch_and_shrink_with_checkpointing() {
    let _turn = turn();
    let kept = |batch_size, gradient_checkpointing| {
        profile(&profiled(|cell| {
            (cell.batch_size, cell.gradient_checkpointing) = (batch_size, gradient_checkpointing);
        }))
        .activation_bytes
    };
    assert_eq!(kept(8, Checkpointing::None), 2 * kept(4, Checkpointing::None));
    // Each block's input and the last output: three hidden states of 4 × 24 tokens.
    let config = Preset::named("tiny").expect("a preset").config();
    assert_eq!(kept(4, Checkpointing::Full), 3 * 4 * 24 * config.hidden_size as u64 * 4);
}

/// What one micro-batch leaves stays for the next, whose forward and backward passes come on top, as in a training.
#[test]
fn micro_batches_add_to_the_gradients_of_the_first() {
    let _turn = turn();
    for rank in [0, 8] {
        let micro_batches = |count| {
            profile(&profiled(|cell| {
                (cell.rank, cell.gradient_accumulation_steps) = (rank, count);
            }))
        };
        let (one, two, four) = (micro_batches(1), micro_batches(2), micro_batches(4));
        assert_eq!(two, four, "rank {rank}: the others find what the second found");
        let components = Profile {
            peak_bytes: one.peak_bytes,
            ..two.clone()
        };
        assert_eq!(
            components, one,
            "rank {rank}: one set of gradients, whatever their number"
        );
        assert!(two.peak_bytes > one.peak_bytes, "rank {rank}");
        for (gradient_accumulation_steps, profile) in [(1, one), (2, two), (4, four)] {
            let epoch = Cell {
                measure: Measure::Epoch,
                max_steps: Some(2),
                gradient_accumulation_steps,
                ..profiled(|cell| cell.rank = rank)
            };
            let in_phase = Run::of(&epoch).expect("a run").measured.allocated_peak_in_phase;
            let passes = in_phase["forward"].max(in_phase["backward"]);
            assert_eq!(
                passes, profile.peak_bytes,
                "rank {rank}, {gradient_accumulation_steps} micro-batches"
            );
        }
    }
}

#[test]
fn the_whole_training_goes_as_high_as_its_profile_and_accumulates_in_place() {
    let _turn = turn();
    for rank in [0, 8] {
        let profile = profile(&profiled(|cell| cell.rank = rank));
        let epoch = |gradient_accumulation_steps| {
            let cell = Cell {
                measure: Measure::Epoch,
                max_steps: Some(3),
                gradient_accumulation_steps,
                ..profiled(|cell| cell.rank = rank)
            };
            let measured = Run::of(&cell).expect("a run").measured;
            assert_eq!(measured.profile, None);
            measured
        };
        let (one, four) = (epoch(1), epoch(4));
        assert!(one.allocated_peak_bytes >= Some(profile.peak_bytes));
        assert!(four.allocated_peak_bytes >= one.allocated_peak_bytes);
        for measured in [one, four] {
            assert!(measured.allocated_peak_by_category["gradient"] <= profile.gradient_bytes);
        }
    }
}
