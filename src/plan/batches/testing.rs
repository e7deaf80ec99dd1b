//! Data of the tests.

use std::path::Path;
use std::sync::Arc;

use super::sequence::Sequence;
use crate::arch::ModelConfig;
use crate::data::{DataError, Dataset};
use crate::options::{Data, DataOptions, Lengths, Padding, Synthetic, TrainingLength};

pub(super) fn options(lengths: Lengths, change: impl FnOnce(&mut DataOptions)) -> DataOptions {
    let mut options = DataOptions {
        data: Data::Synthetic(Synthetic { lengths, samples: 64 }),
        model: "tiny".into(),
        max_seq_length: 64,
        padding: Padding::MaxLength,
        batch_size: 1,
        gradient_accumulation_steps: 1,
        length: TrainingLength::Steps(10),
        eval_fraction: 0.0,
        seed: 0,
    };
    change(&mut options);
    options
}

pub(super) fn config() -> ModelConfig {
    crate::arch::Preset::named("tiny").unwrap().config()
}

pub(super) fn load(options: &DataOptions, config: &ModelConfig) -> Result<Arc<Dataset>, DataError> {
    crate::data::load(options, config, Path::new("")).map(Arc::new)
}

/// A training by its steps, each of micro-batches, each of samples with these lengths.
pub(super) fn training(steps: &[&[&[usize]]]) -> Sequence {
    let mut sequence = Sequence::default();
    for step in steps {
        for lengths in *step {
            let samples: Vec<u32> = (0..lengths.len() as u32).collect();
            sequence.push(&samples, |sample| lengths[sample as usize], Padding::Longest, 1000);
        }
        sequence.end_step();
    }
    sequence
}
