//! Frames on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use base::foreign;
use base::guarded::guarded;
use polars_core::prelude::*;
use polars_io::SerReader;
use polars_io::parquet::read::{ParallelStrategy, ParquetReader};
use polars_io::parquet::write::{KeyValueMetadata, ParquetWriter, StatisticsOptions};
use records::store::{StudyDir, sha256, write_own};

use super::column::column;
use super::error::FrameError;
use super::older;
use crate::columns::{Kind, schema};
use crate::datum::Datum;

/// Writes `cells.parquet` and `cells.csv`. A file that would not change is left alone. Returns the files that changed.
pub fn write(frame: &DataFrame, dir: &StudyDir) -> Result<Vec<PathBuf>, FrameError> {
    let mut written = Vec::new();
    for (path, bytes) in [(dir.cells_parquet(), parquet(frame)?), (dir.cells_csv(), csv(frame)?)] {
        if write_own(&path, &bytes)? {
            written.push(path);
        }
    }
    Ok(written)
}

/// The entry of a file's metadata that holds the SHA-256 of its frame.
const SEAL: &str = "expctl.sha256";

/// The frame as Parquet, with its SHA-256.
pub fn parquet(frame: &DataFrame) -> PolarsResult<Vec<u8>> {
    parquet_with(frame, Entries::new())
}

/// The frame as Parquet, with these entries of metadata and a SHA-256 of both.
pub(super) fn parquet_with(frame: &DataFrame, mut entries: Entries) -> PolarsResult<Vec<u8>> {
    entries.push((SEAL.to_owned(), hash(frame, &entries)?));
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .set_parallel(false)
        // Nobody filters so few rows by statistics, which would be a fifth of the file.
        .with_statistics(StatisticsOptions::empty())
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(entries)))
        .finish(&mut frame.clone())?;
    Ok(bytes)
}

/// Entries of a file's metadata.
pub(super) type Entries = Vec<(String, String)>;

/// The SHA-256 of a frame's values and of the entries with it: the library decides on the file's bytes.
fn hash(frame: &DataFrame, entries: &Entries) -> PolarsResult<String> {
    let entries = serde_json::json!(entries).to_string();
    Ok(sha256(&[&csv(frame)?, entries.as_bytes()]))
}

/// A Parquet file as it was read.
pub(super) struct ReadParquet {
    pub(super) frame: DataFrame,
    /// The entries of metadata that it was written with.
    pub(super) entries: Entries,
    /// False of a file without a hash, which an older version wrote.
    pub(super) is_proven: bool,
}

/// Reads a Parquet file.
///
/// # Errors
/// The reason why it cannot be read, or that it was changed.
pub(super) fn read_parquet(file: File) -> Result<ReadParquet, String> {
    // The library panics on some damaged files.
    let read = guarded(|| {
        let mut reader = ParquetReader::new(file).read_parallel(ParallelStrategy::None);
        let metadata = reader.get_metadata()?.key_value_metadata().iter().flatten();
        let entries = metadata.filter(|entry| entry.key.starts_with("expctl."));
        let entries: Entries = entries
            .map(|entry| (entry.key.clone(), entry.value.clone().unwrap_or_default()))
            .collect();
        PolarsResult::Ok((reader.finish()?, entries))
    });
    let (frame, mut entries) = match read {
        Ok(read) => read.map_err(|error| error.to_string())?,
        Err(panic) => return Err(format!("it is damaged ({panic})")),
    };
    let seal = entries.iter().position(|(key, _)| key == SEAL);
    if let Some(place) = seal {
        let (_, seal) = entries.remove(place);
        if hash(&frame, &entries).map_err(|error| error.to_string())? != seal {
            return Err("it was changed after it was written: its SHA-256 does not hold".into());
        }
    }
    Ok(ReadParquet {
        frame,
        entries,
        is_proven: seal.is_some(),
    })
}

/// Reads a frame's file: Parquet, or CSV with the columns' own types. Also says whether a hash proves it: CSV has none, and
/// neither has the Parquet of older versions.
///
/// # Errors
/// The file cannot be read, has no column `cell_id`, or has a value of a wrong type.
pub fn read(path: &Path) -> Result<(DataFrame, bool), FrameError> {
    let wrong = |why: String| FrameError::File {
        path: path.to_path_buf(),
        why,
    };
    let file = foreign::open(path).map_err(|error| wrong(error.to_string()))?;
    let (frame, is_proven) = match path.extension() {
        Some(extension) if extension == "csv" => (from_csv(file), false),
        _ => {
            let read = read_parquet(file).map_err(wrong)?;
            (older::translate(read.frame), read.is_proven)
        }
    };
    let frame = frame.map_err(|error| wrong(error.to_string()))?;
    if frame.column("cell_id").is_err() {
        return Err(wrong("it has no column `cell_id`".into()));
    }
    Ok((frame, is_proven))
}

/// Reads every field as text first: an id such as `1234567890e1` is not a number, even among numbers.
fn from_csv(file: File) -> PolarsResult<DataFrame> {
    let columns = texts_of_csv(file).map_err(compute_error)?.into_iter();
    let columns = columns.map(|(name, texts)| Column::new(name.into(), texts));
    let texts = older::translate(DataFrame::new_infer_height(columns.collect())?)?;
    let kinds: BTreeMap<String, Kind> = schema()
        .into_iter()
        .filter_map(|(name, kind)| Some((name, kind?)))
        .collect();
    let typed = |texts: &Column| {
        let name = texts.name().as_str();
        let kind = kinds.get(name).copied().unwrap_or(Kind::Text);
        let values = texts
            .str()?
            .iter()
            .map(|text| text.map_or(Ok(Datum::Null), |text| parsed(name, kind, text)));
        column(name, kind, values.collect::<PolarsResult<Vec<_>>>()?.into_iter())
    };
    let columns = texts.columns().iter().map(typed).collect::<PolarsResult<Vec<_>>>()?;
    DataFrame::new(texts.height(), columns)
}

fn parsed(name: &str, kind: Kind, text: &str) -> PolarsResult<Datum> {
    let value = match kind {
        Kind::Text => Some(Datum::Text(text.to_string())),
        Kind::Bool => text.parse().ok().map(Datum::Bool),
        Kind::Int | Kind::Unsigned => text.parse().ok().map(Datum::Int),
        Kind::Float => text.parse().ok().map(Datum::Float),
    };
    value.ok_or_else(|| polars_err!(SchemaMismatch: "column `{name}` cannot hold {text:?}"))
}

/// The texts of each column of the file; an empty field is null.
fn texts_of_csv(file: File) -> csv::Result<Vec<(String, Vec<Option<String>>)>> {
    let mut reader = csv::Reader::from_reader(file);
    let names = reader.headers()?.clone();
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::new(); names.len()];
    for record in reader.records() {
        for (column, field) in columns.iter_mut().zip(&record?) {
            column.push((!field.is_empty()).then(|| field.to_owned()));
        }
    }
    Ok(names.iter().map(str::to_owned).zip(columns).collect())
}

/// The frame as CSV; a null is an empty field.
pub fn csv(frame: &DataFrame) -> PolarsResult<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(frame.get_column_names()).map_err(compute_error)?;
    for row in 0..frame.height() {
        for column in frame.columns() {
            writer.write_field(field(&column.get(row)?)).map_err(compute_error)?;
        }
        writer.write_record(None::<&[u8]>).map_err(compute_error)?;
    }
    writer
        .into_inner()
        .map_err(|error| compute_error(error.into_error().into()))
}

fn field(value: &AnyValue) -> String {
    match value {
        AnyValue::Null => String::new(),
        AnyValue::String(text) => (*text).to_owned(),
        // The shortest text that reads back as the same number, with an exponent where it has many zeros.
        AnyValue::Float64(number) if number.is_finite() => serde_json::json!(number).to_string(),
        other => other.to_string(),
    }
}

fn compute_error(error: csv::Error) -> PolarsError {
    polars_err!(ComputeError: "{error}")
}
