//! Packed samples: the losses of padded ones, and no sight of a neighbour.

use expctl::cell::{Cell, Checkpointing, Data, Dtype, Lengths, PackingAttention, PackingSeparator, Synthetic};
use expctl::data::MicroBatch;

use crate::setup::{Training, cell, turn, values};

/// Effective batches of 6 samples, for 20 steps.
fn packed(dtype: Dtype, change: impl FnOnce(&mut Cell)) -> Cell {
    let mut cell = Cell {
        dtype,
        packing: true,
        batch_size: 3,
        gradient_accumulation_steps: 2,
        max_steps: Some(20),
        learning_rate: 1e-3,
        data: Data::Synthetic(Synthetic {
            between: None,
            lengths: Lengths::List(vec![7, 24, 2, 15, 11, 5, 9]),
            samples: 40,
        }),
        ..cell()
    };
    change(&mut cell);
    assert_eq!(cell.validate(), Ok(()));
    cell
}

fn losses(cell: &Cell) -> Vec<f64> {
    Training::new(cell).losses(20)
}

#[test]
fn packed_losses_are_those_of_padded_samples() {
    let _turn = turn();
    for (dtype, tolerance) in [(Dtype::Float32, 1e-6), (Dtype::Bfloat16, 2e-4), (Dtype::Int4, 2e-4)] {
        let padded = losses(&packed(dtype, |cell| cell.packing = false));
        for (separator, rows, checkpointing) in [
            (PackingSeparator::None, 3, Checkpointing::None),
            (PackingSeparator::Eos, 1, Checkpointing::Full),
        ] {
            let cell = packed(dtype, |cell| {
                cell.packing_separator = separator;
                (cell.batch_size, cell.gradient_accumulation_steps) = (rows, 6 / rows);
                cell.gradient_checkpointing = checkpointing;
            });
            for (step, (got, want)) in losses(&cell).iter().zip(&padded).enumerate() {
                let difference = (got - want).abs() / want;
                assert!(
                    difference <= tolerance,
                    "{dtype:?}, {separator:?}, step {step}: {got}, {want} padded"
                );
            }
        }
    }
}

/// Dropout masks follow the samples.
#[test]
fn packed_losses_with_dropout_are_those_of_padded_samples() {
    let _turn = turn();
    let with = |packing| {
        losses(&packed(Dtype::Float32, |cell| {
            (cell.packing, cell.lora_dropout) = (packing, 0.3)
        }))
    };
    for (got, want) in with(true).iter().zip(with(false)) {
        assert!((got - want).abs() <= 1e-6 * want, "{got}, {want} padded");
    }
}

/// The logits of each token, by sample, and the samples' ids.
fn logits(training: &mut Training, micro: &MicroBatch) -> Vec<Vec<f32>> {
    let all = values(&training.trainer.logits(micro).expect("logits"));
    let vocabulary = all.len() / micro.sequences.tokens();
    let sequences = micro.sequences.iter();
    sequences
        .map(|tokens| all[tokens.start * vocabulary..tokens.end * vocabulary].to_vec())
        .collect()
}

#[test]
fn other_neighbours_change_no_logit_of_a_packed_sample() {
    let _turn = turn();
    for separator in [PackingSeparator::None, PackingSeparator::Eos] {
        let mut training = Training::new(&packed(Dtype::Float32, |cell| cell.packing_separator = separator));
        training.fill_adapters();
        let micro = training.batches[0].micro[0].clone();
        assert!(micro.sequences.count() > 2);
        let before = logits(&mut training, &micro);
        for (index, tokens) in micro.sequences.iter().enumerate() {
            let mut changed = micro.clone();
            for id in &mut changed.ids[tokens] {
                *id = (*id + 17) % 512;
            }
            let after = logits(&mut training, &changed);
            for (other, (before, after)) in before.iter().zip(&after).enumerate() {
                assert_eq!(
                    before == after,
                    other != index,
                    "sample {other}, of which {index} changed"
                );
            }
        }
    }
}

/// A row that is one text lets each sample see those before it, and has more targets: each sample's first token.
#[test]
fn full_attention_lets_earlier_samples_through() {
    let _turn = turn();
    let full = packed(Dtype::Float32, |cell| {
        cell.packing_attention = PackingAttention::Full;
        cell.packing_separator = PackingSeparator::Eos;
    });
    let mut training = Training::new(&full);
    training.fill_adapters();
    let mut micro_batches = training.batches.iter().flat_map(|batch| &batch.micro);
    let micro = micro_batches.find(|micro| !micro.separators.is_empty());
    let micro = micro.expect("a row of two samples").clone();
    let (index, position) = micro.sequences.locate(micro.separators[0] as usize + 1);
    let row = micro.sequences.get(index);
    let before = logits(&mut training, &micro);
    let mut changed = micro.clone();
    changed.ids[row.start] = (changed.ids[row.start] + 17) % 512;
    let vocabulary = before[index].len() / micro.sequences.get(index).len();
    let later = position * vocabulary..(position + 1) * vocabulary;
    assert_ne!(
        before[index][later.clone()],
        logits(&mut training, &changed)[index][later]
    );

    let counted = |cell: &Cell| Training::new(cell).batches[0].counted;
    let padded = packed(Dtype::Float32, |cell| cell.packing = false);
    assert!(counted(&full) > counted(&padded));
    let (got, want) = (losses(&full), losses(&padded));
    let differs = |(got, want): (&f64, &f64)| (got - want).abs() > 1e-5 * want;
    assert!(got.iter().zip(&want).any(differs), "{got:?}, {want:?} padded");
}
