//! Data of the tests.

use std::path::Path;
use std::sync::Arc;

use arch::ModelConfig;
use data::{DataError, EffectiveBatch, Layout, Sampler};
use options::{Data, DataOptions, Lengths, Padding, Synthetic, TrainingLength};

use super::sequence::Sequence;

pub(super) fn options(lengths: Lengths, change: impl FnOnce(&mut DataOptions)) -> DataOptions {
    let mut options = DataOptions {
        data: Data::Synthetic(Synthetic {
            lengths,
            samples: 64,
            between: None,
        }),
        model: "tiny".into(),
        max_seq_length: 64,
        padding: Padding::MaxLength,
        pad_to_multiple_of: 1,
        packing: None,
        batch_size: 1,
        gradient_accumulation_steps: 1,
        max_tokens_per_batch: None,
        length_groups: None,
        longest_first: false,
        holds_scores: false,
        length: TrainingLength::Steps(10),
        eval_fraction: 0.0,
        seed: 0,
    };
    change(&mut options);
    options
}

pub(super) fn config() -> ModelConfig {
    arch::Preset::named("tiny").unwrap().config()
}

pub(super) fn sampler(options: &DataOptions, config: &ModelConfig) -> Result<Arc<Sampler>, DataError> {
    data::sampler(options, config, &Path::new("").into()).map(Arc::new)
}

/// The batches that are trained on.
pub(super) fn trained(options: &DataOptions, config: &ModelConfig) -> Vec<EffectiveBatch> {
    let dataset = data::load(options, config, &Path::new("").into(), Path::new("")).unwrap();
    dataset.batches(options, config).collect::<Result<_, _>>().unwrap()
}

/// A training by its steps, each of micro-batches, each of samples with these lengths.
pub(super) fn training(steps: &[&[&[usize]]]) -> Sequence {
    let mut sequence = Sequence::default();
    for step in steps {
        for lengths in *step {
            let samples: Vec<u32> = (0..lengths.len() as u32).collect();
            let options = options(Lengths::Fixed, |options| {
                (options.padding, options.batch_size) = (Padding::Longest, lengths.len());
            });
            for laid_out in Layout::new(&options).micro_batches(lengths) {
                sequence.push_micro_batch(laid_out, &samples, false);
            }
        }
        sequence.end_step();
    }
    sequence
}
