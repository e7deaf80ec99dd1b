//! Small data sets for tests.

use arch::ModelConfig;
use options::{Data, DataOptions, Padding, Synthetic, TrainingLength};

use super::{Dataset, sampler::Found, samples::Samples, tokenise::Tokenised};

/// The shape of the smallest preset.
pub(super) fn config() -> ModelConfig {
    arch::Preset::named("tiny").unwrap().config()
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
    let samples: Vec<_> = (0..count).map(|sample| vec![sample; sample as usize + 2]).collect();
    dataset_of(options, samples.iter().map(|ids| (&ids[..], None)))
}

/// Samples with their labels.
pub(super) fn dataset_of<'a>(
    options: &DataOptions,
    samples: impl IntoIterator<Item = (&'a [u32], Option<u32>)>,
) -> Dataset {
    Dataset::new(options, samples_of(samples), None, &Found::default()).unwrap()
}

/// Samples with their labels, before they are split.
pub(super) fn samples_of<'a>(samples: impl IntoIterator<Item = (&'a [u32], Option<u32>)>) -> Samples {
    let mut all = Samples::new("".as_ref());
    for (ids, label) in samples {
        all.push(Tokenised {
            ids,
            label,
            ..Tokenised::default()
        })
        .unwrap();
    }
    all
}
