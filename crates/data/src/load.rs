//! Loads the data of a cell: its samples as tokens, and their order.

use std::mem;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arch::{ModelConfig, locate};
use hub::Roots;
use options::{Data, DataFile, DataOptions, PackingSeparator};
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::sample_lengths::SampleLengths;
use super::sampler::Found;
use super::samples::Samples;
use super::skipped::Skipped;
use super::source::origin;
use super::targets::SampleTargets;
use super::tokenise::{EachSample, Tokenised, tokenise, tokeniser};
use super::{DataError, Dataset, Sampler, synthetic, tokenizer};

/// Loads the data for the model of shape `config`. Samples are cut to `max_seq_length`; those without a predicted token
/// are left out. Paths are relative to `roots`; the ids of large data lie in a temporary file in `folder`.
///
/// # Errors
/// If a file cannot be read, changes meanwhile, or has another format; the tokenizer or the chat template is missing or
/// belongs to another model; no samples are left to train on; or the temporary file cannot be written.
pub fn load(options: &DataOptions, config: &ModelConfig, roots: &Roots, folder: &Path) -> Result<Dataset, DataError> {
    let mut samples = Samples::new(folder);
    let found = for_each_sample(options, Parts::All, config, roots, &mut |sample| samples.push(sample))?;
    let samples = samples.finish(found.label_numbers.as_deref())?;
    let separator = separator(options, config, roots)?;
    Dataset::new(options, samples, separator, &found)
}

/// The samples to train on that [`load`] loads, without their ids: plans need no more. Data for evaluation is not read.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrainingSamples {
    lengths: Arc<SampleLengths>,
    targets: Arc<SampleTargets>,
    found: Found,
}

impl TrainingSamples {
    /// Reads the samples. Only synthetic ones depend on the seed.
    ///
    /// # Errors
    /// Those of [`load`], but for the temporary file.
    pub fn read(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Self, DataError> {
        let (mut lengths, mut targets) = (SampleLengths::default(), SampleTargets::default());
        let found = for_each_sample(options, Parts::Training, config, roots, &mut |sample| {
            targets.push(lengths.len(), sample.ids.len(), sample.targets);
            lengths.push(sample.ids.len() as u32);
            Ok(())
        })?;
        lengths.shrink();
        targets.shrink();
        separator(options, config, roots)?;
        Ok(Self {
            lengths: lengths.into(),
            targets: targets.into(),
            found,
        })
    }

    /// The remarks of [`Dataset::remarks`], on the data to train on.
    pub(super) fn remarks(&self, sampler: &Sampler, options: &DataOptions) -> impl Iterator<Item = String> {
        self.found.remarks(sampler, options)
    }

    /// Their order.
    ///
    /// # Errors
    /// If too few are left to train on.
    pub fn sampler(&self, options: &DataOptions) -> Result<Sampler, DataError> {
        Sampler::new(
            options,
            Arc::clone(&self.lengths),
            Arc::clone(&self.targets),
            &self.found,
        )
    }
}

/// The order of the samples to train on.
///
/// # Errors
/// Those of [`TrainingSamples`].
pub fn sampler(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Sampler, DataError> {
    TrainingSamples::read(options, config, roots)?.sampler(options)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    Training,
    All,
}

/// Calls `each` with every sample with a predicted token, those to train on first.
fn for_each_sample(
    options: &DataOptions,
    parts: Parts,
    config: &ModelConfig,
    roots: &Roots,
    each: &mut EachSample,
) -> Result<Found, DataError> {
    if options.max_seq_length < 2 {
        return Err(DataError::MaxSeqLength(options.max_seq_length));
    }
    let mut found = Found {
        origin: origin(&options.data, roots),
        ..Found::default()
    };
    if let Data::Synthetic(spec) = &options.data {
        let (vocab_size, labels) = (config.vocab_size, config.labels());
        if let Some(labels) = labels.filter(|labels| *labels > vocab_size) {
            return Err(DataError::LabelsOfTokens { labels, vocab_size });
        }
        let length = options.max_seq_length;
        found.skipped.training.short = synthetic::samples(spec, options.seed, vocab_size, labels, length, each)?;
        return Ok(found);
    }
    let location = locate(&options.model, roots)?;
    let tokeniser = tokeniser(options, &location, config, options.max_seq_length, roots)?;
    let mut labels = Labels::new(config.labels().unwrap_or(0));
    let mut sieve = Sieve {
        each,
        kept: 0,
        skipped: Skipped::default(),
    };
    // A label counts even if its sample is left out: otherwise label numbers would depend on `max_seq_length`.
    found.reading = tokenise(&options.data, &tokeniser, &mut labels, roots, &mut |sample| {
        sieve.take(sample)
    })?;
    found.skipped.training = mem::take(&mut sieve.skipped);
    if let Data::File(file) = &options.data
        && parts == Parts::All
    {
        let mut add = |data: Option<DataFile>, skipped: &mut Skipped| {
            let Some(data) = data.map(Data::from) else {
                return Ok(None);
            };
            let before = sieve.kept;
            let reading = tokenise(&data, &tokeniser, &mut labels, roots, &mut |sample| sieve.take(sample))?;
            found.reading.and(reading);
            *skipped = mem::take(&mut sieve.skipped);
            match sieve.kept > before {
                true => Ok(Some(before)),
                false => Err(DataError::NothingToEvaluate {
                    origin: origin(&data, roots),
                    skipped: *skipped,
                }),
            }
        };
        found.evaluation_from = add(file.evaluation(), &mut found.skipped.evaluation)?;
        found.forgetting_from = add(file.forgetting(), &mut found.skipped.forgetting)?;
    }
    // Names that only the data for evaluation has are not known to a plan.
    if parts == Parts::All {
        found.label_numbers = labels.in_order(&found.origin)?;
    }
    Ok(found)
}

/// Hands on the samples that have a predicted token.
struct Sieve<'a, 'b> {
    each: &'a mut EachSample<'b>,
    kept: usize,
    skipped: Skipped,
}

impl Sieve<'_, '_> {
    fn take(&mut self, sample: Tokenised) -> Result<(), DataError> {
        // Nothing predicts the first token.
        let is_target = |range: &Range<u32>| range.end > 1;
        if sample.ids.len() < 2 {
            self.skipped.short += 1;
            return Ok(());
        }
        self.skipped.prompt_mismatches += usize::from(sample.finding.prompt_differs);
        if sample.targets.is_some_and(|targets| !targets.iter().any(is_target)) {
            match sample.finding.is_cut {
                true => self.skipped.cut += 1,
                false => self.skipped.without_targets += 1,
            }
            return Ok(());
        }
        self.kept += 1;
        (self.each)(sample)
    }
}

/// The id of the token between packed samples; `None` if none is asked for.
fn separator(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Option<u32>, DataError> {
    if options.packing.map(|packing| packing.separator) != Some(PackingSeparator::Eos) {
        return Ok(None);
    }
    let eos = tokenizer::eos(&locate(&options.model, roots)?, config);
    let known = eos.filter(|&id| (id as usize) < config.vocab_size);
    known.map(Some).ok_or_else(|| DataError::NoEos {
        model: options.model.clone(),
    })
}

#[cfg(test)]
mod trl_tests;

#[cfg(test)]
mod tests {
    use arch::Preset;
    use options::{DataFile, Packing, PackingAttention, PackingStrategy};

    use super::*;
    use crate::testing;

    /// The data for evaluation may have names that the training data lacks, and in another order.
    #[test]
    fn names_of_labels_are_numbered_over_all_data() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, labels: &[&str]| {
            let line = |label: &&str| serde_json::json!({"text": "The river keeps it.", "label": label}).to_string();
            std::fs::write(
                dir.path().join(name),
                labels.iter().map(line).collect::<Vec<_>>().join("\n"),
            )
            .unwrap();
        };
        write("train.jsonl", &["sad", "glad", "sad"]);
        write("test.jsonl", &["mad", "sad", "glad"]);
        let mut config = Preset::named("distilbert-base").unwrap().config();
        config.num_labels = 3;
        let load = |eval_path: Option<&str>| {
            let file = DataFile {
                eval_path: eval_path.map(|path| options::Paths(vec![path.into()])),
                ..DataFile::new("train.jsonl")
            };
            let options = DataOptions {
                data: file.into(),
                model: "distilbert-base".into(),
                ..testing::options(3, 1)
            };
            load(&options, &config, &dir.path().into(), dir.path()).map(|dataset| (options, dataset))
        };
        let (options, dataset) = load(Some("test.jsonl")).unwrap();
        let trained = dataset.batches(&options, &config).next().unwrap().unwrap();
        let mut trained = trained.micro[0].labels.clone();
        trained.sort_unstable();
        assert_eq!(trained, [0, 2, 2], "glad, mad, sad");
        let evaluated: Vec<u32> = dataset
            .eval_batches(&options, &config)
            .flat_map(|micro| micro.unwrap().labels)
            .collect();
        assert_eq!(evaluated, [1, 2, 0]);
        let message = load(None).unwrap_err().to_string();
        assert!(
            message.contains("there are 2 labels (glad, sad), and `num_labels` is 3"),
            "{message}"
        );
    }

    /// A checkpoint names the end of a text in its config.json, and may name several.
    #[test]
    fn separators_need_an_end_of_text() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("model")).unwrap();
        let with_eos = |eos: serde_json::Value| {
            let mut config = serde_json::json!({
                "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
                "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
            });
            config["eos_token_id"] = eos;
            std::fs::write(dir.path().join("model/config.json"), config.to_string()).unwrap();
            let options = DataOptions {
                model: "./model".into(),
                packing: Some(Packing {
                    separator: PackingSeparator::Eos,
                    attention: PackingAttention::BlockDiagonal,
                    strategy: PackingStrategy::Bfd,
                }),
                ..testing::options(1, 1)
            };
            let config = locate("./model", &dir.path().into()).unwrap().config().unwrap();
            separator(&options, &config, &dir.path().into()).map_err(|error| error.to_string())
        };
        assert_eq!(with_eos(serde_json::json!(7)), Ok(Some(7)));
        assert_eq!(with_eos(serde_json::json!([9, 8])), Ok(Some(9)));
        for unknown in [serde_json::json!(null), serde_json::json!(512)] {
            let message = with_eos(unknown).unwrap_err();
            assert!(message.contains("names no `eos_token_id`"), "{message}");
        }
        let options = testing::options(1, 1);
        let config = Preset::named("tiny").unwrap().config();
        assert_eq!(
            separator(&options, &config, &dir.path().into()).unwrap(),
            None,
            "none is asked for"
        );
    }
}
