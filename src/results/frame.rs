//! The frame: a study as a table, a row a cell. It is made from the records alone, and reports read nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use polars_core::prelude::*;
use polars_io::csv::read::{CsvReadOptions, CsvReader};
use polars_io::csv::write::CsvWriter;
use polars_io::parquet::read::ParquetReader;
use polars_io::parquet::write::ParquetWriter;
use polars_io::{SerReader, SerWriter};

use super::columns::{IDENTITY, Kind, key_kinds, keys, outcomes, predictions};
use super::datum::Datum;
use super::prediction::Prediction;
use super::record::Record;
use super::store::{StoreError, StudyDir, write_if_changed};
use super::timeline::TimelineError;
use crate::spec::cell::{Cell, InstructionSetChoice};

/// Why a frame could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("cannot make the frame")]
    Polars(#[from] PolarsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    #[error("cannot read the frame `{}`: {why}", path.display())]
    File { path: PathBuf, why: String },
}

/// What a row is made from. A cell without a record is a row of its configuration, all else null.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub cell_id: &'a str,
    pub cell: &'a Cell,
    pub record: Option<&'a Record>,
    pub prediction: Option<&'a Prediction>,
}

/// The frame of these rows, in their order. Besides the columns of [`IDENTITY`], the cell's keys, [`outcomes`] and
/// [`predictions`] there are none; `device`, `threads` and `instruction_set` are those that the cell ran on, once it ran.
pub fn build(rows: &[Row<'_>]) -> Result<DataFrame, FrameError> {
    let configurations: Vec<BTreeMap<String, Datum>> =
        rows.iter().map(|row| keys(row.cell).into_iter().collect()).collect();
    let mut columns = Vec::new();
    for (name, kind) in IDENTITY {
        columns.push(column(name, kind, rows.iter().map(|row| identity(name, row)))?);
    }
    let identity_names = IDENTITY.map(|(name, _)| name);
    for (key, kind) in key_kinds() {
        if identity_names.contains(&key.as_str()) {
            continue;
        }
        let (names, kind) = match kind {
            Some(kind) => (BTreeSet::from([key]), kind),
            None => (names_under(&key, &configurations), Kind::Text),
        };
        for name in names {
            let values = rows.iter().zip(&configurations).map(|(row, configuration)| {
                let given = configuration.get(&name).cloned().unwrap_or(Datum::Null);
                match (name.as_str(), row.record) {
                    ("device", Some(record)) => record.provenance.device.as_str().into(),
                    ("threads", Some(record)) => record.provenance.threads.into(),
                    ("instruction_set", Some(record)) => record.provenance.instruction_set.as_str().into(),
                    ("instruction_set", None) if row.cell.instruction_set == InstructionSetChoice::Auto => Datum::Null,
                    _ => given,
                }
            });
            columns.push(column(&name, kind, values)?);
        }
    }
    for outcome in outcomes() {
        let values = rows.iter().map(|row| row.record.map_or(Datum::Null, &outcome.value));
        columns.push(column(&outcome.name, outcome.kind, values)?);
    }
    for predicted in predictions() {
        let values = rows
            .iter()
            .map(|row| row.prediction.map_or(Datum::Null, &predicted.value));
        columns.push(column(&predicted.name, predicted.kind, values)?);
    }
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// The columns of a map: every entry that any cell has.
fn names_under(key: &str, configurations: &[BTreeMap<String, Datum>]) -> BTreeSet<String> {
    let prefix = format!("{key}.");
    configurations
        .iter()
        .flat_map(BTreeMap::keys)
        .filter(|name| name.starts_with(&prefix))
        .cloned()
        .collect()
}

fn identity(name: &str, row: &Row<'_>) -> Datum {
    match name {
        "cell_id" => row.cell_id.into(),
        "group_id" => Datum::Text(row.cell.group_id()),
        "status" => row.record.map(|record| record.status.name()).into(),
        "attempt" => row.record.map(|record| u64::from(record.attempt)).into(),
        _ => row.cell.seed.into(),
    }
}

pub(super) fn column(name: &str, kind: Kind, values: impl Iterator<Item = Datum>) -> PolarsResult<Column> {
    let values: Vec<Datum> = values.collect();
    let series = match kind {
        Kind::Bool => Series::new(name.into(), typed(name, &values, Datum::as_bool)?),
        Kind::Int => {
            let signed = |value: &Datum| value.as_int().and_then(|n| i64::try_from(n).ok());
            Series::new(name.into(), typed(name, &values, signed)?)
        }
        Kind::Unsigned => Series::new(name.into(), typed(name, &values, Datum::as_int)?),
        Kind::Float => Series::new(name.into(), typed(name, &values, Datum::as_number)?),
        Kind::Text => Series::new(name.into(), typed(name, &values, Datum::as_text)?),
    };
    Ok(series.into_column())
}

/// Nulls stay null; a value of another type than the column's is an error, not a null.
fn typed<'a, T>(name: &str, values: &'a [Datum], get: impl Fn(&'a Datum) -> Option<T>) -> PolarsResult<Vec<Option<T>>> {
    let one = |value: &'a Datum| match get(value) {
        None if !value.is_null() => polars_bail!(SchemaMismatch: "column `{name}` cannot hold {value:?}"),
        got => Ok(got),
    };
    values.iter().map(one).collect()
}

/// Writes `cells.parquet` and `cells.csv`, each only where it changes, and says which it wrote.
pub fn write(frame: &DataFrame, dir: &StudyDir) -> Result<Vec<PathBuf>, FrameError> {
    let mut written = Vec::new();
    for (path, bytes) in [(dir.cells_parquet(), parquet(frame)?), (dir.cells_csv(), csv(frame)?)] {
        if write_if_changed(&path, &bytes)? {
            written.push(path);
        }
    }
    Ok(written)
}

pub(super) fn parquet(frame: &DataFrame) -> PolarsResult<Vec<u8>> {
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .set_parallel(false)
        .finish(&mut frame.clone())?;
    Ok(bytes)
}

/// Reads a frame's file: Parquet, or CSV with the columns' own types.
///
/// # Errors
/// It cannot be read, has no cells' ids, or holds a value that its column cannot have.
pub fn read(path: &Path) -> Result<DataFrame, FrameError> {
    let wrong = |why: String| FrameError::File {
        path: path.to_path_buf(),
        why,
    };
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let frame = match path.extension() {
        Some(extension) if extension == "csv" => from_csv(file),
        _ => ParquetReader::new(file).finish(),
    };
    let frame = frame.map_err(|error| wrong(error.to_string()))?;
    if frame.column("cell_id").is_err() {
        return Err(wrong("it has no column `cell_id`".into()));
    }
    Ok(frame)
}

/// Reads every field as text first: an id such as `1234567890e1` is no number, whatever its neighbours look like.
fn from_csv(file: File) -> PolarsResult<DataFrame> {
    let options = CsvReadOptions {
        infer_schema_length: Some(0),
        ..CsvReadOptions::default()
    };
    let texts = CsvReader::new(file).with_options(options).finish()?;
    let outcomes = outcomes().into_iter().map(|outcome| (outcome.name, outcome.kind));
    let predictions = predictions().into_iter().map(|column| (column.name, column.kind));
    let keys = key_kinds().into_iter().filter_map(|(name, kind)| Some((name, kind?)));
    let identity = IDENTITY.map(|(name, kind)| (name.to_string(), kind));
    let kinds: BTreeMap<String, Kind> = outcomes.chain(predictions).chain(keys).chain(identity).collect();
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

/// The frame as CSV: an empty field where there is no value.
pub fn csv(frame: &DataFrame) -> PolarsResult<Vec<u8>> {
    let mut bytes = Vec::new();
    CsvWriter::new(&mut bytes).finish(&mut frame.clone())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
    use super::*;

    #[test]
    fn a_frame_survives_its_files() {
        let cells: Vec<Cell> = (0..3)
            .map(|seed| Cell {
                seed,
                ..Cell::default()
            })
            .collect();
        let ids: Vec<String> = cells.iter().map(Cell::id).collect();
        let record = sample::ok(&ids[0]);
        let rows: Vec<Row<'_>> = cells
            .iter()
            .zip(&ids)
            .enumerate()
            .map(|(i, (cell, cell_id))| Row {
                cell_id,
                cell,
                record: (i == 0).then_some(&record),
                prediction: None,
            })
            .collect();
        let frame = build(&rows).unwrap();
        let bytes = parquet(&frame).unwrap();
        let back = ParquetReader::new(std::io::Cursor::new(&bytes)).finish().unwrap();
        assert!(back.equals_missing(&frame));
        assert_eq!(
            bytes,
            parquet(&build(&rows).unwrap()).unwrap(),
            "equal rows, equal bytes"
        );
        assert_eq!(frame.column("threads").unwrap().get(0).unwrap(), AnyValue::Int64(2));
        assert!(frame.column("status").unwrap().get(1).unwrap().is_null());
        let level = frame.column("instruction_set").unwrap();
        assert_eq!(level.get(0).unwrap(), AnyValue::String("avx512"));
        assert!(level.get(1).unwrap().is_null(), "auto is nothing yet");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.csv");
        std::fs::write(&path, csv(&frame).unwrap()).unwrap();
        assert!(read(&path).unwrap().equals_missing(&frame), "and CSV");
        let config = frame.column("group_id").unwrap();
        assert_eq!(config.get(0).unwrap(), config.get(2).unwrap());
    }

    #[test]
    fn types_do_not_depend_on_values() {
        let cell = Cell::default();
        let id = cell.id();
        let record = sample::ok(&id);
        let row = |record| Row {
            cell_id: &id,
            cell: &cell,
            record,
            prediction: None,
        };
        let (with, without) = (build(&[row(Some(&record))]).unwrap(), build(&[row(None)]).unwrap());
        assert_eq!(with.schema(), without.schema());
        assert_eq!(with.schema(), build(&[]).unwrap().schema());
    }
}
