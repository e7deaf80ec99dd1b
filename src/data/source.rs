//! Finds the data and tokenises it.

use std::ops::Range;
use std::path::Path;

use super::chat_template::{ChatTemplate, SpecialTokens};
use super::files::{self, Source, Stamp};
use super::form::{Form, Sample};
use super::formats::{self, Place};
use super::labels::{Label, LabelValue, Labels};
use super::render::Renderer;
use super::sample_lengths::SampleLengths;
use super::samples::Samples;
use super::skipped::Skipped;
use super::targets::SampleTargets;
use super::tokenise::{EachSample, Tokenised, Tokeniser, tokenise};
use super::tokenizer::{self, Encoder};
use super::{DataError, Dataset, Sampler, synthetic};
use crate::arch::{Location, ModelConfig, locate};
use crate::hub::{Roots, Snapshot};
use crate::options::{Data, DataFile, DataFormat, DataOptions, PackingSeparator};

/// The text of `data: sample`.
const SAMPLE: &str = include_str!("../../data/sample.txt");

/// The callback of a reader of samples: takes each, with its label if labels are read.
type EachRaw<'a> = dyn FnMut(Sample, Place, Option<Label>) -> Result<(), DataError> + 'a;

/// Loads the data for the model of shape `config`. Samples are cut to `max_seq_length`; those that nothing can be learnt from are
/// left out. Paths are relative to `roots`; the ids of large data lie in a temporary file in `folder`.
///
/// # Errors
/// If a file cannot be read, changes meanwhile, or has another format; the tokenizer or the chat template is missing or belongs
/// to another model; no samples are left to train on; or the temporary file cannot be written.
pub fn load(options: &DataOptions, config: &ModelConfig, roots: &Roots, folder: &Path) -> Result<Dataset, DataError> {
    let mut samples = Samples::new(folder);
    let found = for_each_sample(options, Parts::All, config, roots, &mut |sample| samples.push(sample))?;
    let samples = samples.finish(found.label_numbers.as_deref())?;
    let separator = separator(options, config, roots)?;
    Dataset::new(options, samples, separator, &found)
}

/// The order of the samples to train on that [`load`] loads, without their ids: plans need no more. Data for evaluation is not
/// read.
///
/// # Errors
/// Those of [`load`], but for the temporary file.
pub fn sampler(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Sampler, DataError> {
    let (mut lengths, mut targets) = (SampleLengths::default(), SampleTargets::default());
    let found = for_each_sample(options, Parts::Training, config, roots, &mut |sample| {
        targets.push(lengths.len(), sample.targets);
        lengths.push(sample.ids.len() as u32);
        Ok(())
    })?;
    lengths.shrink();
    targets.shrink();
    separator(options, config, roots)?;
    Sampler::new(options, lengths, targets, &found)
}

/// What is known of samples when all are read.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The files, for messages.
    pub(super) origin: String,
    /// Samples that were left out.
    pub(super) skipped: Skipped,
    /// The first sample of the data for evaluation, if there is such data.
    pub(super) evaluated_from: Option<usize>,
    /// The final number of each label, if labels are names.
    pub(super) label_numbers: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    Training,
    All,
}

/// Calls `each` with every sample that something can be learnt from, those to train on first.
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
        found.skipped.short = synthetic::samples(spec, options.seed, vocab_size, labels, length, each)?;
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
    tokenise(&options.data, &tokeniser, &mut labels, roots, &mut |sample| {
        sieve.take(sample)
    })?;
    let evaluated = match &options.data {
        Data::File(file) if parts == Parts::All => file.evaluation(),
        _ => None,
    };
    if let Some(file) = evaluated {
        let (data, trained) = (Data::from(file), sieve.kept);
        tokenise(&data, &tokeniser, &mut labels, roots, &mut |sample| sieve.take(sample))?;
        if sieve.kept == trained {
            return Err(DataError::NothingToEvaluate {
                origin: origin(&data, roots),
            });
        }
        found.evaluated_from = Some(trained);
    }
    found.skipped = sieve.skipped;
    found.label_numbers = labels.in_order(&found.origin)?;
    Ok(found)
}

/// Hands on the samples that something can be learnt from.
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
        if sample.targets.is_some_and(|targets| !targets.iter().any(is_target)) {
            self.skipped.without_targets += 1;
            return Ok(());
        }
        self.kept += 1;
        (self.each)(sample)
    }
}

/// The tokeniser of samples for a model, of at most so many tokens.
pub(super) fn tokeniser(
    options: &DataOptions,
    location: &Location,
    config: &ModelConfig,
    max_seq_length: usize,
    roots: &Roots,
) -> Result<Tokeniser, DataError> {
    let encoder = Encoder::open(location, config.vocab_size, max_seq_length)?;
    let file = match &options.data {
        Data::File(file) => Some(&**file),
        Data::Synthetic(_) | Data::Sample => None,
    };
    let special_tokens = SpecialTokens::of(location);
    let eos = special_tokens
        .as_ref()
        .ok()
        .and_then(|tokens| tokens.eos().map(str::to_owned));
    let eos_id = match location {
        Location::Preset(_) => Some(tokenizer::EMBEDDED_EOS),
        Location::Directory(_) => config.eos_token_id,
    };
    Ok(Tokeniser {
        renderer: Renderer {
            template: special_tokens.and_then(|tokens| template(file, location, &tokens, roots)),
            eos: eos.or_else(|| encoder.token(eos_id?)),
            completion_only: file.is_none_or(DataFile::completion_only_loss),
            assistant_only: file.is_some_and(DataFile::assistant_only_loss),
            model: options.model.clone(),
        },
        encoder,
    })
}

/// The chat template that a spec names, or that of the model.
fn template(
    file: Option<&DataFile>,
    location: &Location,
    tokens: &SpecialTokens,
    roots: &Roots,
) -> Result<ChatTemplate, super::ChatTemplateError> {
    let given = file.and_then(|file| file.chat_template.as_deref());
    ChatTemplate::open(given.map(|path| roots.path(path)).as_deref(), location, tokens)
}

/// Reads the samples of some files or of the sample text, with labels if they are asked for; synthetic data has none to read.
pub(super) fn read(data: &Data, has_labels: bool, roots: &Roots, each: &mut EachRaw) -> Result<(), DataError> {
    match data {
        Data::Synthetic(_) => Ok(()),
        Data::Sample if has_labels => Err(DataError::Unlabelled {
            origin: origin(data, roots),
        }),
        Data::Sample => {
            let mut paragraphs = SAMPLE.split("\n\n").map(str::trim_end);
            let place = Place::line(&Path::new("sample text").into(), 1);
            paragraphs.try_for_each(|text| each(Sample::Text(text.into()), place.clone(), None))
        }
        Data::File(file) => {
            let sources = files::sources(file, roots)?;
            sources
                .iter()
                .try_for_each(|source| read_file(file, source, has_labels, each))
        }
    }
}

/// The name of the data, for messages.
pub(super) fn origin(data: &Data, roots: &Roots) -> String {
    match data {
        Data::Synthetic(_) => "synthetic data".into(),
        Data::Sample => "sample text".into(),
        Data::File(file) => {
            let name = |path: &str| match roots.data_set(path) {
                Some(_) => path.to_owned(),
                None => roots.path(path).display().to_string(),
            };
            file.path.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The id of the token between packed samples; `None` if none is asked for.
fn separator(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Option<u32>, DataError> {
    if options.packing.map(|packing| packing.separator) != Some(PackingSeparator::Eos) {
        return Ok(None);
    }
    let eos = match locate(&options.model, roots)? {
        Location::Preset(_) => Some(tokenizer::EMBEDDED_EOS),
        Location::Directory(_) => config.eos_token_id,
    };
    let known = eos.filter(|&id| (id as usize) < config.vocab_size);
    known.map(Some).ok_or_else(|| DataError::NoEos {
        model: options.model.clone(),
    })
}

/// Checks the data without reading it: the files, the columns, the model's tokenizer and its chat template exist. What is to
/// be fetched later is left out.
///
/// # Errors
/// Those of [`load`] that show without reading all.
pub fn check(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<(), DataError> {
    let is_complete = |snapshot: Option<&Snapshot>| snapshot.is_none_or(|snapshot| snapshot.is_complete);
    let mut has_messages = None;
    if let Data::File(file) = &options.data {
        for file in [Some((**file).clone()), file.evaluation()].into_iter().flatten() {
            if !file.path.iter().all(|path| is_complete(roots.data_set(path))) {
                continue;
            }
            for source in files::sources(&file, roots)? {
                let form = form_of(&file, &source, config.labels().is_some())?;
                if matches!(form, Some(Form::Messages(_))) {
                    has_messages.get_or_insert_with(|| source.path.display().to_string());
                }
            }
        }
    }
    if !is_complete(roots.model(&options.model)) || matches!(options.data, Data::Synthetic(_)) {
        return Ok(());
    }
    let location = locate(&options.model, roots)?;
    if let Location::Directory(dir) = &location {
        let path = tokenizer::path(dir);
        if !path.is_file() {
            return Err(DataError::NoTokenizer { path });
        }
    }
    if let (Data::File(file), Some(place)) = (&options.data, has_messages) {
        let found = SpecialTokens::of(&location).and_then(|tokens| template(Some(file), &location, &tokens, roots));
        found.map_err(|error| DataError::ChatTemplate { place, error })?;
    }
    Ok(())
}

/// The form of a file's samples; `None` if it has none.
fn form_of(file: &DataFile, source: &Source, has_labels: bool) -> Result<Option<Form>, DataError> {
    let Source { path, format } = source;
    files::check(path)?;
    if *format == DataFormat::Text {
        if has_labels {
            return Err(DataError::Unlabelled {
                origin: path.display().to_string(),
            });
        }
        if let Some(column) = file.columns().next() {
            return Err(DataError::ColumnOfText {
                path: path.clone(),
                column: column.into(),
            });
        }
    }
    let Some(columns) = formats::columns(path, *format)? else {
        return Ok(None);
    };
    Form::choose(file, &columns, &path.display().to_string(), has_labels).map(Some)
}

fn read_file(file: &DataFile, source: &Source, has_labels: bool, each: &mut EachRaw) -> Result<(), DataError> {
    let Some(form) = form_of(file, source, has_labels)? else {
        return Ok(());
    };
    let Source { path, format } = source;
    let stamp = Stamp::of(path)?;
    let labels = has_labels.then(|| file.label_column());
    let columns: Vec<&str> = form.columns().into_iter().chain(labels).collect();
    formats::read(path, *format, &columns, &mut |mut row| {
        let sample = form.sample(&mut row)?;
        let label = match labels {
            None => None,
            Some(column) => Some(Label {
                value: LabelValue::of(&row.values[column], &row.place, column)?,
                column,
            }),
        };
        each(sample, row.place.clone(), label)
    })?;
    stamp.check(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;
    use crate::data::testing;
    use crate::options::{Packing, PackingAttention, PackingStrategy};

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
