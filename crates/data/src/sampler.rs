//! The samples of each step, from their lengths alone.

use std::ops::Range;
use std::sync::Arc;

use base::random;
use base::text::counted;
use options::{Data, DataFormat, DataOptions, TrainingLength};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::{
    DataError, LaidOut, Layout,
    reading::Reading,
    sample_lengths::SampleLengths,
    skipped::SkippedParts,
    targets::{SampleTargets, predicted},
};

/// Samples by their lengths, split into those to train on and those held out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampler {
    lengths: Arc<SampleLengths>,
    targets: Arc<SampleTargets>,
    /// Indices of the samples held out, ascending.
    held_out: Vec<u32>,
    /// The first sample whose forgetting is measured; those before it are trained on or held out.
    forgetting_from: u32,
}

/// What is known of samples when all are read.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Found {
    /// The files, for messages.
    pub(super) origin: String,
    /// Samples that were left out.
    pub(super) skipped: SkippedParts,
    /// What is worth a remark in how all parts were read.
    pub(super) reading: Reading,
    /// The first sample of the data for evaluation, if there is such data.
    pub(super) evaluation_from: Option<usize>,
    /// The first sample whose forgetting is measured, if there are such samples.
    pub(super) forgetting_from: Option<usize>,
    /// The final number of each label, if labels are names.
    pub(super) label_numbers: Option<Vec<u32>>,
}

impl Found {
    /// Sentences for the user: what samples are taken for, and what of them is not read or left out.
    pub(super) fn remarks(&self, sampler: &Sampler, options: &DataOptions) -> impl Iterator<Item = String> {
        let read = self.reading.remarks().chain(sampler.remark(options));
        read.chain(self.skipped.remarks())
    }
}

impl Sampler {
    /// Holds the samples for evaluation out, or the part that `options` ask for. The others must fill a micro-batch.
    pub(super) fn new(
        options: &DataOptions,
        lengths: Arc<SampleLengths>,
        targets: Arc<SampleTargets>,
        found: &Found,
    ) -> Result<Self, DataError> {
        let origin = || found.origin.clone();
        let samples = found.forgetting_from.unwrap_or(lengths.len());
        if found.evaluation_from.unwrap_or(samples) == 0 {
            return Err(DataError::Empty {
                origin: origin(),
                skipped: found.skipped.training,
            });
        }
        if u32::try_from(lengths.len()).is_err() {
            return Err(DataError::TooMany { origin: origin() });
        }
        let held_out = match found.evaluation_from {
            Some(first) => (first as u32..samples as u32).collect(),
            None => held_out(samples, options, &found.origin)?,
        };
        let sampler = Self {
            lengths,
            targets,
            held_out,
            forgetting_from: samples as u32,
        };
        if sampler.trained() < options.batch_size {
            return Err(DataError::TooFew {
                origin: origin(),
                batch_size: options.batch_size,
                samples: sampler.trained(),
                help: of_paragraphs(options),
            });
        }
        Ok(sampler)
    }

    /// The tokens of all samples, trained on and held out.
    pub fn lengths(&self) -> &SampleLengths {
        &self.lengths
    }

    /// The micro-batches of an effective batch of these samples, without ids and labels.
    pub fn lay_out(&self, layout: &Layout, samples: &[u32]) -> Vec<LaidOut> {
        let lengths: Vec<usize> = samples.iter().map(|&sample| self.lengths.tokens(sample)).collect();
        let mut laid_out = layout.micro_batches(&lengths);
        for laid in laid_out.iter_mut().filter(|_| !self.targets.is_empty()) {
            let mut targets = Vec::new();
            for &(place, start) in &laid.samples {
                let moved = |range: Range<u32>| range.start + start as u32..range.end + start as u32;
                match self.targets.of(samples[place], lengths[place]) {
                    Some(ranges) => targets.extend(ranges.map(moved)),
                    None => targets.push(moved(0..lengths[place] as u32)),
                }
            }
            laid.micro.targets = Some(targets);
        }
        laid_out
    }

    /// Indices of the samples to train on, ascending.
    pub fn train(&self) -> impl Iterator<Item = u32> {
        all_but(&self.held_out, self.forgetting_from as usize)
    }

    /// Number of samples to train on.
    pub fn trained(&self) -> usize {
        self.forgetting_from as usize - self.held_out.len()
    }

    /// Indices of the samples held out, ascending; empty without data for evaluation.
    pub fn held_out(&self) -> &[u32] {
        &self.held_out
    }

    /// Indices of the samples whose forgetting is measured, ascending.
    pub fn forgetting(&self) -> Vec<u32> {
        (self.forgetting_from..self.lengths.len() as u32).collect()
    }

    /// Optimizer steps of one epoch; the last may have fewer samples.
    pub fn steps_per_epoch(&self, options: &DataOptions) -> usize {
        self.trained().div_ceil(options.effective_batch_size())
    }

    /// The number of predicted tokens of a sample.
    pub(super) fn predicted(&self, sample: u32) -> usize {
        let tokens = self.lengths.tokens(sample);
        predicted(tokens, self.targets.of(sample, tokens))
    }

    /// A sentence on data that do not fill a step.
    fn remark(&self, options: &DataOptions) -> Option<String> {
        let (trained, step) = (self.trained(), options.effective_batch_size());
        let DataOptions {
            batch_size,
            gradient_accumulation_steps,
            ..
        } = options;
        let takes = match options.length {
            TrainingLength::Steps(_) => "takes them several times",
            TrainingLength::Epochs(_) => "has no more than these",
        };
        (trained < step).then(|| {
            format!(
                "there {} {} to train on, and a step of `batch_size` × `gradient_accumulation_steps` = {batch_size} × \
                 {gradient_accumulation_steps} {takes}{}",
                if trained == 1 { "is" } else { "are" },
                counted(trained, "sample"),
                of_paragraphs(options)
            )
        })
    }

    /// Optimizer steps of the whole training.
    pub fn steps(&self, options: &DataOptions) -> usize {
        options.length.steps_of(self.steps_per_epoch(options))
    }
}

/// What a sample of a text is, if the data may be one whose user thinks of lines.
fn of_paragraphs(options: &DataOptions) -> &'static str {
    let Data::File(file) = &options.data else { return "" };
    let is_text = |path| file.format_of(path) == Some(DataFormat::Text);
    match file.sample_by {
        None if file.path.iter().any(is_text) => {
            "; a sample of a text is a paragraph, and `data: {sample_by: line}` makes one of each line"
        }
        _ => "",
    }
}

/// Indices of `eval_fraction` of the samples, rounded up and chosen by the seed; ascending.
pub(super) fn held_out(samples: usize, options: &DataOptions, origin: &str) -> Result<Vec<u32>, DataError> {
    let Ok(count) = u32::try_from(samples) else {
        return Err(DataError::TooMany { origin: origin.into() });
    };
    let held_out = options.held_out(samples);
    if held_out >= samples {
        return Err(DataError::EvalFraction {
            fraction: options.eval_fraction,
            samples,
            held_out,
        });
    }
    if held_out == 0 {
        return Ok(Vec::new());
    }
    let mut all: Vec<u32> = (0..count).collect();
    all.shuffle(&mut random::stream(options.seed, "held-out samples"));
    all.truncate(held_out);
    all.shrink_to_fit();
    all.sort_unstable();
    Ok(all)
}

/// The indices below `count` that are not among these ascending ones.
pub(super) fn all_but(these: &[u32], count: usize) -> impl Iterator<Item = u32> {
    let mut these = these.iter().copied().peekable();
    (0..count as u32).filter(move |&sample| these.next_if_eq(&sample).is_none())
}

#[cfg(test)]
mod tests {
    use options::{DataFile, SampleBy};

    use super::*;
    use crate::testing::options;

    fn sampler(options: &DataOptions, count: usize, skipped: usize) -> Result<Sampler, String> {
        let mut lengths = SampleLengths::default();
        (0..count).for_each(|_| lengths.push(2));
        let mut found = Found {
            origin: "x.txt".into(),
            ..Found::default()
        };
        found.skipped.training.short = skipped;
        Sampler::new(options, lengths.into(), Arc::default(), &found).map_err(|error| error.to_string())
    }

    #[test]
    fn data_that_do_not_fill_a_step_are_worth_a_remark() {
        let remark = |file: DataFile, length, count| {
            let options = DataOptions {
                data: file.into(),
                length,
                ..options(2, 8)
            };
            sampler(&options, count, 0).unwrap().remark(&options)
        };
        let steps = TrainingLength::Steps(3);
        let lines = "there are 2 samples to train on, and a step of `batch_size` × `gradient_accumulation_steps` = 2 × 8 takes \
                     them several times";
        assert_eq!(remark(DataFile::new("x.jsonl"), steps, 2).unwrap(), lines);
        let text = remark(DataFile::new("x.txt"), steps, 15).unwrap();
        assert!(
            text.ends_with("; a sample of a text is a paragraph, and `data: {sample_by: line}` makes one of each line")
        );
        let by_line = DataFile {
            sample_by: Some(SampleBy::Line),
            ..DataFile::new("x.txt")
        };
        let epoch = remark(by_line, TrainingLength::Epochs(1.0), 15).unwrap();
        assert!(epoch.ends_with("= 2 × 8 has no more than these"), "{epoch}");
        assert_eq!(remark(DataFile::new("x.jsonl"), steps, 16), None);
    }

    #[test]
    fn a_micro_batch_needs_its_samples() {
        let options = DataOptions {
            data: DataFile::new("x.txt").into(),
            ..options(4, 8)
        };
        assert_eq!(
            sampler(&options, 3, 0).unwrap_err(),
            "x.txt: a micro-batch of `batch_size: 4` needs as many samples, and there are 3 to train on; lower it or give more \
             data; a sample of a text is a paragraph, and `data: {sample_by: line}` makes one of each line"
        );
        assert!(sampler(&options, 4, 0).is_ok());
    }

    #[test]
    fn both_sides_of_the_split_need_a_sample() {
        let split = |count| {
            let options = DataOptions {
                eval_fraction: 0.5,
                ..options(1, 1)
            };
            sampler(&options, count, 4)
        };
        assert!(split(0).unwrap_err().contains("x.txt: nothing to train on"));
        assert!(split(1).unwrap_err().contains("at least one"));
        assert_eq!(split(2).unwrap().held_out().len(), 1);
    }

    #[test]
    fn a_sample_is_trained_on_or_held_out() {
        let options = DataOptions {
            eval_fraction: 0.3,
            ..options(1, 1)
        };
        let sampler = sampler(&options, 50, 0).unwrap();
        let train: Vec<u32> = sampler.train().collect();
        assert!(train.is_sorted() && sampler.held_out().is_sorted());
        assert_eq!((train.len(), sampler.trained(), sampler.held_out().len()), (35, 35, 15));
        let mut all = [&train, sampler.held_out()].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..50));
    }
}
