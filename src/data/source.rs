//! Finds the data and tokenises it.

use std::fs;
use std::path::Path;

use super::labels::Each;
use super::sample_lengths::SampleLengths;
use super::samples::Samples;
use super::tokenise::{EachSample, Texts, tokenise};
use super::tokenizer::{self, Encoder};
use super::{DataError, Dataset, Sampler, jsonl, parquet, synthetic, text};
use crate::arch::{Location, ModelConfig, locate};
use crate::hub::{Roots, Snapshot};
use crate::options::{Data, DataFile, DataFormat, DataOptions, PackingSeparator};

/// The text of `data: sample`.
const SAMPLE: &str = include_str!("../../data/sample.txt");

/// The default column of JSON lines and Parquet.
const DEFAULT_COLUMN: &str = "text";

/// Loads the data for the model of shape `config`. Samples are cut to `max_seq_length`; samples of fewer than two tokens
/// are left out. Paths are relative to `roots`; the ids of large data lie in a temporary file in `folder`.
///
/// # Errors
/// If a file cannot be read or has another format, the tokenizer is missing or belongs to another model, no samples are
/// left to train on, or the temporary file cannot be written.
pub fn load(options: &DataOptions, config: &ModelConfig, roots: &Roots, folder: &Path) -> Result<Dataset, DataError> {
    let mut samples = Samples::new(folder);
    let found = for_each_sample(options, config, roots, &mut |ids, label| samples.push(ids, label))?;
    let samples = samples.finish(found.texts.label_numbers.as_deref())?;
    let separator = separator(options, config, roots)?;
    Dataset::new(options, samples, separator, found.skipped, &found.texts.origin)
}

/// The order of the samples that [`load`] loads, without their ids: plans need no more.
///
/// # Errors
/// Those of [`load`], but for the temporary file.
pub fn sampler(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Sampler, DataError> {
    let mut lengths = SampleLengths::default();
    let found = for_each_sample(options, config, roots, &mut |ids, _| {
        lengths.push(ids.len() as u32);
        Ok(())
    })?;
    lengths.shrink();
    separator(options, config, roots)?;
    Sampler::new(options, lengths, found.skipped, &found.texts.origin)
}

/// What is known of samples when all are read.
struct Found {
    texts: Texts,
    /// Samples of fewer than two tokens.
    skipped: usize,
}

/// Calls `each` with every sample of two tokens or more.
fn for_each_sample(
    options: &DataOptions,
    config: &ModelConfig,
    roots: &Roots,
    each: &mut EachSample,
) -> Result<Found, DataError> {
    if options.max_seq_length < 2 {
        return Err(DataError::MaxSeqLength(options.max_seq_length));
    }
    if let Data::Synthetic(spec) = &options.data {
        let (vocab_size, labels) = (config.vocab_size, config.labels());
        if let Some(labels) = labels.filter(|labels| *labels > vocab_size) {
            return Err(DataError::LabelsOfTokens { labels, vocab_size });
        }
        let length = options.max_seq_length;
        let skipped = synthetic::samples(spec, options.seed, vocab_size, labels, length, each)?;
        let texts = Texts {
            origin: "synthetic data".into(),
            label_numbers: None,
        };
        return Ok(Found { texts, skipped });
    }
    let location = locate(&options.model, roots)?;
    let encoder = Encoder::open(&location, config.vocab_size, options.max_seq_length)?;
    let mut skipped = 0;
    // A label counts even if its sample is left out: otherwise label numbers would depend on `max_seq_length`.
    let texts = tokenise(&options.data, &encoder, config, roots, &mut |ids, label| {
        if ids.len() < 2 {
            skipped += 1;
            return Ok(());
        }
        each(ids, label)
    })?;
    Ok(Found { texts, skipped })
}

/// Reads the texts of a file or of the sample, with labels if the model of shape `config` has some. Returns their origin,
/// for messages; synthetic data has no texts.
pub(super) fn read(data: &Data, config: &ModelConfig, roots: &Roots, each: &mut Each) -> Result<String, DataError> {
    match data {
        Data::Synthetic(_) => Ok("synthetic data".into()),
        Data::Sample => {
            if config.labels().is_some() {
                return Err(DataError::Unlabelled {
                    origin: "sample text".into(),
                });
            }
            SAMPLE.split("\n\n").try_for_each(|text| each(text.trim_end(), None))?;
            Ok("sample text".into())
        }
        Data::File(file) => {
            let labels = config.labels().map(|_| file.label_column());
            for path in roots.data_files(&file.path) {
                check_file(&path)?;
                read_file(file, &path, labels, each)?;
            }
            Ok(match roots.data_set(&file.path) {
                Some(_) => file.path.clone(),
                None => roots.path(&file.path).display().to_string(),
            })
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

/// Checks the data without reading it: the file and the model's tokenizer exist. What is to be fetched later is left out.
///
/// # Errors
/// If the file is missing, empty or not a regular file, or if text has no tokenizer.
pub fn check(options: &DataOptions, roots: &Roots) -> Result<(), DataError> {
    let is_complete = |snapshot: Option<&Snapshot>| snapshot.is_none_or(|snapshot| snapshot.is_complete);
    if let Data::File(file) = &options.data
        && is_complete(roots.data_set(&file.path))
    {
        for path in roots.data_files(&file.path) {
            check_file(&path)?;
            format_of(file, &path)?;
        }
    }
    if !is_complete(roots.model(&options.model)) {
        return Ok(());
    }
    match locate(&options.model, roots)? {
        Location::Directory(dir) if !matches!(options.data, Data::Synthetic(_)) => {
            let path = tokenizer::path(&dir);
            if path.is_file() {
                Ok(())
            } else {
                Err(DataError::NoTokenizer { path })
            }
        }
        _ => Ok(()),
    }
}

/// Checks that `path` is a regular file with content: reading a pipe or a device might never end.
fn check_file(path: &Path) -> Result<(), DataError> {
    let read = |source| DataError::Read {
        path: path.into(),
        source,
    };
    let metadata = fs::metadata(path).map_err(read)?;
    if !metadata.is_file() {
        return Err(DataError::NotAFile { path: path.into() });
    }
    if metadata.len() == 0 {
        return Err(DataError::EmptyFile { path: path.into() });
    }
    fs::File::open(path).map_err(read)?;
    Ok(())
}

/// The format of a file of the data: the one given, or the one that its extension names.
fn format_of(file: &DataFile, path: &Path) -> Result<DataFormat, DataError> {
    let format = file.format.or_else(|| DataFormat::of_path(&path.display().to_string()));
    format.ok_or_else(|| DataError::Format { path: path.into() })
}

fn read_file(file: &DataFile, path: &Path, labels: Option<&str>, each: &mut Each) -> Result<(), DataError> {
    let column = file.column.as_deref();
    match (format_of(file, path)?, column) {
        (DataFormat::Text, _) if labels.is_some() => Err(DataError::Unlabelled {
            origin: path.display().to_string(),
        }),
        (DataFormat::Text, None) => text::read(path, &mut |text| each(text, None)),
        (DataFormat::Text, Some(column)) => Err(DataError::ColumnOfText {
            path: path.into(),
            column: column.into(),
        }),
        (DataFormat::Jsonl, column) => jsonl::read(path, column.unwrap_or(DEFAULT_COLUMN), labels, each),
        (DataFormat::Parquet, column) => parquet::read(path, column.unwrap_or(DEFAULT_COLUMN), labels, each),
    }
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
