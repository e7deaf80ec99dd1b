//! A study's folder, read: the cells of `study.yaml`, each with its record.

use std::collections::BTreeSet;
use std::fs;

use polars_core::prelude::DataFrame;

use super::frame::{self, FrameError, Row};
use super::prediction::Prediction;
use super::record::Record;
use super::store::{CellDir, StoreError, StudyDir, read_prediction, read_record};
use crate::spec::Study;
use crate::spec::cell::Cell;

/// A cell with what is known of its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    pub cell_id: String,
    pub cell: Cell,
    pub record: Option<Record>,
    /// What was predicted before it ran.
    pub prediction: Option<Prediction>,
}

/// The rows of a study, and what is in its folder but not among them.
#[derive(Debug, Default)]
pub struct Collection {
    pub cells: Vec<Collected>,
    /// Records of cells that are no longer in the study and were not asked for.
    pub left_out: usize,
    /// Files that could not be read; their cells are there without a record.
    pub unreadable: Vec<Unreadable>,
}

/// Why a cell's record or configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Record(#[from] StoreError),
    #[error("{0}")]
    Cell(String),
}

/// Reads the records of a study: its cells in their order and, with `all`, then those of cells that are no longer in it,
/// in the order of their ids.
pub fn collect(dir: &StudyDir, study: &Study, all: bool) -> Result<Collection, StoreError> {
    let mut collection = Collection::default();
    for planned in &study.cells {
        let (record, prediction) = collection.read(&dir.cell(&planned.id));
        collection.cells.push(Collected {
            cell_id: planned.id.clone(),
            cell: planned.cell.clone(),
            record,
            prediction,
        });
    }
    let known: BTreeSet<&str> = study.cells.iter().map(|planned| planned.id.as_str()).collect();
    for folder in dir.cells()? {
        if known.contains(folder.id().as_str()) || !folder.record().exists() {
            continue;
        }
        if !all {
            collection.left_out += 1;
            continue;
        }
        match read_cell(&folder) {
            Ok(cell) => {
                let (record, prediction) = collection.read(&folder);
                collection.cells.push(Collected {
                    cell_id: folder.id(),
                    cell,
                    record,
                    prediction,
                });
            }
            Err(error) => collection.unreadable.push(error),
        }
    }
    Ok(collection)
}

/// The configuration in a cell's folder.
pub fn read_cell(folder: &CellDir) -> Result<Cell, Unreadable> {
    let path = folder.cell_yaml();
    let text = fs::read_to_string(&path).map_err(|source| StoreError::Io {
        action: "read",
        path: path.clone(),
        source,
    })?;
    Cell::from_yaml(&path.display().to_string(), &text).map_err(|error| Unreadable::Cell(error.to_string()))
}

impl Collection {
    fn read(&mut self, folder: &CellDir) -> (Option<Record>, Option<Prediction>) {
        let record = read_record(folder).unwrap_or_else(|error| {
            self.unreadable.push(error.into());
            None
        });
        // One of another version is made again by the next run; it is no result.
        (record, read_prediction(folder).unwrap_or_default())
    }

    /// The frame of these cells.
    pub fn frame(&self) -> Result<DataFrame, FrameError> {
        let rows: Vec<Row<'_>> = self
            .cells
            .iter()
            .map(|collected| Row {
                cell_id: &collected.cell_id,
                cell: &collected.cell,
                record: collected.record.as_ref(),
                prediction: collected.prediction.as_ref(),
            })
            .collect();
        frame::build(&rows)
    }
}
