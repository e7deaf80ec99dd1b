//! Small data sets for tests.

use super::{Dataset, Samples};
use crate::{
    arch::ModelConfig,
    options::{Data, DataOptions, Padding, Synthetic, TrainingLength},
};

/// The shape of the smallest preset.
pub(super) fn config() -> ModelConfig {
    crate::arch::Preset::named("tiny").unwrap().config()
}

/// Six steps of micro-batches that are padded to their longest sample.
pub(super) fn options(batch_size: usize, gradient_accumulation_steps: usize) -> DataOptions {
    DataOptions {
        data: Data::Synthetic(Synthetic::default()),
        model: "tiny".into(),
        max_seq_length: 16,
        padding: Padding::Longest,
        pad_to_multiple_of: 1,
        packing: None,
        batch_size,
        gradient_accumulation_steps,
        max_tokens_per_batch: None,
        length_groups: None,
        longest_first: false,
        holds_scores: false,
        length: TrainingLength::Steps(6),
        eval_fraction: 0.0,
        seed: 0,
    }
}

/// Samples of lengths 2, 3, ..., whose ids are all the sample's number.
pub(super) fn dataset(options: &DataOptions, count: u32) -> Dataset {
    let mut samples = Samples::default();
    (0..count).for_each(|sample| samples.push(vec![sample; sample as usize + 2]));
    Dataset::new(options, samples, None, 0, "test").unwrap()
}
