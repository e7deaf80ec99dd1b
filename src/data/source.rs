//! Finds a cell's data and tokenises it.

use std::fs;
use std::path::Path;

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
            let (samples, skipped) = synthetic::samples(spec, cell.seed, config.vocab_size, cell.max_seq_length);
            Dataset::new(cell, samples, skipped, "synthetic data")
        }
        Data::Sample => {
            let mut texts = Texts::new(cell, config, base_dir)?;
            SAMPLE.split("\n\n").try_for_each(|text| texts.add(text.trim_end()))?;
            texts.into_dataset(cell, "sample text")
        }
        Data::File(file) => {
            let mut texts = Texts::new(cell, config, base_dir)?;
            let path = base_dir.join(&file.path);
            check_file(&path)?;
            read_file(file, &path, &mut |text| texts.add(text))?;
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

fn read_file(
    file: &DataFile,
    path: &Path,
    each: &mut dyn FnMut(&str) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let column = file.column.as_deref();
    match (file.format(), column) {
        (DataFormat::Text, None) => text::read(path, each),
        (DataFormat::Text, Some(column)) => Err(DataError::ColumnOfText {
            path: path.into(),
            column: column.into(),
        }),
        (DataFormat::Jsonl, column) => jsonl::read(path, column.unwrap_or(DEFAULT_COLUMN), each),
        (DataFormat::Parquet, column) => parquet::read(path, column.unwrap_or(DEFAULT_COLUMN), each),
    }
}

/// Samples in the making.
struct Texts {
    encoder: Encoder,
    samples: Samples,
    skipped: usize,
}

impl Texts {
    fn new(cell: &Cell, config: &Config, base_dir: &Path) -> Result<Self, DataError> {
        let location = locate(&cell.model, base_dir)?;
        Ok(Self {
            encoder: Encoder::open(&location, config.vocab_size, cell.max_seq_length)?,
            samples: Samples::default(),
            skipped: 0,
        })
    }

    fn add(&mut self, text: &str) -> Result<(), DataError> {
        let ids = self.encoder.encode(text)?;
        if ids.len() < 2 {
            self.skipped += 1;
        } else {
            self.samples.push(ids);
        }
        Ok(())
    }

    fn into_dataset(mut self, cell: &Cell, origin: &str) -> Result<Dataset, DataError> {
        self.samples.shrink();
        Dataset::new(cell, self.samples, self.skipped, origin)
    }
}
