//! The frame of a study's cells.

use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, InstructionSetChoice};
use polars_core::prelude::*;
use records::Record;
use records::prediction::Prediction;
use spec::{Lineage, Study};

use super::column::column;
use super::error::FrameError;
use crate::columns::{IDENTITY, Kind, LINEAGE, PLANNED, REPLANNED, key_kinds, keys, lineage, outcomes, predictions};
use crate::datum::Datum;

/// A row of the frame. Without a record it has the cell's configuration, and all else is null.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The cell's id.
    pub cell_id: &'a str,
    /// The configuration.
    pub cell: &'a Cell,
    /// How the cell came into the study.
    pub lineage: &'a Lineage,
    /// The outcome.
    pub record: Option<&'a Record>,
    /// True if the study measures no speeds.
    pub hides_speeds: bool,
    /// The plan's figures.
    pub prediction: Option<&'a Prediction>,
}

/// The frame of these rows, in their order. Its columns are [`IDENTITY`], [`LINEAGE`], the cell's keys, [`outcomes`],
/// [`predictions`] and [`REPLANNED`]. Once a cell ran, `device`, `threads` and `instruction_set` are those that it ran on.
///
/// # Errors
/// A value that does not fit the type of its column.
pub fn build(rows: &[Row<'_>]) -> Result<DataFrame, FrameError> {
    let configurations: Vec<BTreeMap<String, Datum>> =
        rows.iter().map(|row| keys(row.cell).into_iter().collect()).collect();
    let mut columns = Vec::new();
    for (name, kind) in IDENTITY {
        columns.push(column(name, kind, rows.iter().map(|row| identity(name, row)))?);
    }
    for (name, kind) in LINEAGE {
        let values = rows.iter().map(|row| lineage(name, row.cell, row.lineage));
        columns.push(column(name, kind, values)?);
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
                // The cell that runs has a fixed micro-batch; these columns say how it was found.
                if let Lineage::Resolved(resolved) = row.lineage
                    && name.starts_with("auto_batch_size.")
                {
                    return resolved.asked.value(&name).into();
                }
                let given = || configuration.get(&name).cloned().unwrap_or(Datum::Null);
                // What the worker took for `auto` takes the place of the word.
                let found = row.record.map(|record| &record.provenance);
                match name.as_str() {
                    "device" => found.map_or_else(given, |found| found.device.as_str().into()),
                    "threads" => found.map_or_else(given, |found| found.threads.into()),
                    "instruction_set" => match found {
                        Some(found) => found.instruction_set.as_deref().into(),
                        None if row.cell.instruction_set == InstructionSetChoice::Auto => Datum::Null,
                        None => given(),
                    },
                    _ => given(),
                }
            });
            columns.push(column(&name, kind, values)?);
        }
    }
    for outcome in outcomes() {
        let values = rows.iter().map(|row| {
            let shown = row.record.filter(|_| !(outcome.is_speed && row.hides_speeds));
            shown.map_or(Datum::Null, &outcome.value)
        });
        columns.push(column(&outcome.name, outcome.kind, values)?);
    }
    for predicted in predictions() {
        let values = rows
            .iter()
            .map(|row| row.prediction.map_or(Datum::Null, &predicted.value));
        columns.push(column(&predicted.name, predicted.kind, values)?);
    }
    columns.push(column(REPLANNED, Kind::Text, rows.iter().map(|_| Datum::Null))?);
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// The frame of a study that has no records, with a prediction for each cell if there are any.
///
/// # Errors
/// Those of [`build`].
pub fn of_plan<'a>(
    study: &'a Study,
    predictions: impl IntoIterator<Item = Option<&'a Prediction>>,
) -> Result<DataFrame, FrameError> {
    let rows: Vec<Row<'_>> = study
        .cells
        .iter()
        .zip(predictions)
        .map(|(study_cell, prediction)| Row {
            cell_id: &study_cell.id,
            cell: &study_cell.cell,
            lineage: &study_cell.lineage,
            record: None,
            hides_speeds: !study.speeds,
            prediction,
        })
        .collect();
    build(&rows)
}

/// The columns of a map: the entries of all cells.
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
        "status" => status(row).into(),
        "attempt" => row.record.map(|record| u64::from(record.attempt)).into(),
        _ => row.cell.seed.into(),
    }
}

/// The end of the cell. One without an engine is planned, and never run.
fn status(row: &Row<'_>) -> Option<&'static str> {
    let planned = || (row.cell.engine().is_none() && row.prediction.is_some()).then_some(PLANNED);
    row.record.map(|record| record.status.name()).or_else(planned)
}

#[cfg(test)]
mod tests {
    use polars_io::SerReader;
    use polars_io::parquet::read::ParquetReader;
    use records::sample;

    use super::*;
    use crate::frame::files::{csv, parquet, read};

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
                lineage: &Lineage::Written,
                hides_speeds: false,
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
        assert!(read(&path).unwrap().0.equals_missing(&frame), "and CSV");
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
            lineage: &Lineage::Written,
            hides_speeds: false,
            record,
            prediction: None,
        };
        let (with, without) = (build(&[row(Some(&record))]).unwrap(), build(&[row(None)]).unwrap());
        assert_eq!(with.schema(), without.schema());
        assert_eq!(with.schema(), build(&[]).unwrap().schema());
    }
}
