//! Finds a cell's data and tokenises it.

use std::fs;
use std::path::Path;

use super::labels::{Each, Labels, RawLabel};
use super::tokenizer::{self, Encoder};
use super::{DataError, Dataset, Samples, jsonl, parquet, synthetic, text};
use crate::model::{Config, Location, locate};
use crate::spec::cell::{Cell, Data, DataFile, DataFormat};

/// The text of `data: sample`.
const SAMPLE: &str = include_str!("../../data/sample.txt");

/// The column of JSON lines and Parquet where the spec names none.
const DEFAULT_COLUMN: &str = "text";

/// Loads the data of `cell` for the model of shape `config`. Samples are cut to `max_seq_length`, and left out where
/// they have fewer than two tokens. Paths are relative to `base_dir`.
///
/// # Errors
/// Where a file cannot be read or is not what it should be, the tokenizer is missing or does not belong to the model,
/// or nothing is left to train on.
pub fn load(cell: &Cell, config: &Config, base_dir: &Path) -> Result<Dataset, DataError> {
    if cell.max_seq_length < 2 {
        return Err(DataError::MaxSeqLength(cell.max_seq_length));
    }
    match &cell.data {
        Data::Synthetic(spec) => {
            let (vocab_size, labels) = (config.vocab_size(), config.num_labels());
            if let Some(labels) = labels.filter(|labels| *labels > vocab_size) {
                return Err(DataError::LabelsOfTokens { labels, vocab_size });
            }
            let (samples, skipped) = synthetic::samples(spec, cell.seed, vocab_size, labels, cell.max_seq_length);
            Dataset::new(cell, samples, skipped, "synthetic data")
        }
        Data::Sample => {
            if config.num_labels().is_some() {
                return Err(DataError::Unlabelled {
                    origin: "sample text".into(),
                });
            }
            let mut texts = Texts::new(cell, config, base_dir)?;
            SAMPLE
                .split("\n\n")
                .try_for_each(|text| texts.add(text.trim_end(), None))?;
            texts.into_dataset(cell, "sample text")
        }
        Data::File(file) => {
            let mut texts = Texts::new(cell, config, base_dir)?;
            let path = base_dir.join(&file.path);
            check_file(&path)?;
            let labels = config.num_labels().map(|_| file.label_column());
            read_file(file, &path, labels, &mut |text, label| texts.add(text, label))?;
            texts.into_dataset(cell, &path.display().to_string())
        }
    }
}

/// Checks what can be seen of a cell's data without reading it: the file and the model's tokenizer are there.
///
/// # Errors
/// Where the file is missing, empty or something else than a file, or text is to be read and there is no tokenizer.
pub fn check(cell: &Cell, base_dir: &Path) -> Result<(), DataError> {
    if let Data::File(file) = &cell.data {
        check_file(&base_dir.join(&file.path))?;
    }
    match locate(&cell.model, base_dir)? {
        Location::Directory(dir) if !matches!(cell.data, Data::Synthetic(_)) => {
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

/// Reading a pipe or a device might never end.
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

fn read_file(file: &DataFile, path: &Path, labels: Option<&str>, each: &mut Each) -> Result<(), DataError> {
    let column = file.column.as_deref();
    match (file.format(), column) {
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

/// Samples in the making.
struct Texts {
    encoder: Encoder,
    samples: Samples,
    labels: Labels,
    skipped: usize,
}

impl Texts {
    fn new(cell: &Cell, config: &Config, base_dir: &Path) -> Result<Self, DataError> {
        let location = locate(&cell.model, base_dir)?;
        Ok(Self {
            encoder: Encoder::open(&location, config.vocab_size(), cell.max_seq_length)?,
            samples: Samples::default(),
            labels: Labels::new(config.num_labels().unwrap_or(0)),
            skipped: 0,
        })
    }

    fn add(&mut self, text: &str, label: Option<RawLabel>) -> Result<(), DataError> {
        let ids = self.encoder.encode(text)?;
        // What a label is called counts even where its sample is left out: else its number would depend on the length.
        let label = label.map(|label| self.labels.number(label)).transpose()?;
        match label {
            _ if ids.len() < 2 => self.skipped += 1,
            Some(label) => self.samples.push_labelled(ids, label),
            None => self.samples.push(ids),
        }
        Ok(())
    }

    fn into_dataset(mut self, cell: &Cell, origin: &str) -> Result<Dataset, DataError> {
        if let Some(numbers) = self.labels.in_order(origin)? {
            self.samples.renumber_labels(&numbers);
        }
        self.samples.shrink();
        Dataset::new(cell, self.samples, self.skipped, origin)
    }
}
