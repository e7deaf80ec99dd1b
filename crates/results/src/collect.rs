//! A study's results: the cells of `study.yaml`, each with its record.

use std::collections::BTreeSet;

use cell::Cell;
use polars_core::prelude::DataFrame;
use records::Record;
use records::prediction::Prediction;
use records::store::{CellDir, StoreError, StudyDir, read_cell_yaml, read_prediction, read_record};
use spec::{Lineage, Study};

use super::frame::{self, FrameError, Row};

/// A cell with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// The cell's id.
    pub cell_id: String,
    /// The configuration.
    pub cell: Cell,
    /// How the cell came into the study.
    pub lineage: Lineage,
    /// The outcome, if there is one.
    pub record: Option<Record>,
    /// The prediction from before the run.
    pub prediction: Option<Prediction>,
}

/// The cells of a study, and the records that are not among them.
#[derive(Debug, Default)]
pub struct Collection {
    /// The cells with their outcomes.
    pub cells: Vec<Collected>,
    /// The number of records of cells that are no longer in the study, if they were not asked for.
    pub left_out: usize,
    /// The number of records without hashes, which an older version wrote.
    pub unproven: usize,
    /// Files that could not be read. Their cells have no record here.
    pub unreadable: Vec<Unreadable>,
    /// True if the study measures no speeds: its frame then has none.
    pub hides_speeds: bool,
}

/// The reason why a cell's record, prediction or configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The record.
    #[error(transparent)]
    Record(#[from] StoreError),
    /// The prediction.
    #[error("{0}")]
    Prediction(StoreError),
    /// The configuration.
    #[error("{0}")]
    Cell(String),
}

/// Reads the records of a study's cells, in the order of the cells. With `all`, the records of cells that are no longer
/// in the study follow, in the order of their ids.
///
/// # Errors
/// The folder cannot be listed.
pub fn collect(dir: &StudyDir, study: &Study, all: bool) -> Result<Collection, StoreError> {
    let mut collection = Collection {
        hides_speeds: !study.speeds,
        ..Collection::default()
    };
    for study_cell in &study.cells {
        let (record, prediction) = collection.read(&dir.cell(&study_cell.id));
        collection.cells.push(Collected {
            cell_id: study_cell.id.clone(),
            cell: study_cell.cell.clone(),
            lineage: study_cell.lineage.clone(),
            record,
            prediction,
        });
    }
    let known: BTreeSet<&str> = study.cells.iter().map(|study_cell| study_cell.id.as_str()).collect();
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
                    lineage: Lineage::Written,
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
///
/// # Errors
/// `cell.yaml` cannot be read.
pub fn read_cell(folder: &CellDir) -> Result<Cell, Unreadable> {
    let text = read_cell_yaml(folder)?;
    let path = folder.cell_yaml();
    let cell = spec::read_cell(&path.display().to_string(), &text);
    let cell = cell.map_err(|error| Unreadable::Cell(error.to_string()))?;
    match cell.id() {
        id if id == folder.id() => Ok(cell),
        id => Err(Unreadable::Cell(format!("`{}` is of the cell {id}", path.display()))),
    }
}

impl Collection {
    fn read(&mut self, folder: &CellDir) -> (Option<Record>, Option<Prediction>) {
        let record = read_record(folder).unwrap_or_else(|error| {
            self.unreadable.push(error.into());
            None
        });
        let prediction = match read_prediction(folder) {
            Ok(prediction) => prediction,
            Err(error) => {
                self.unreadable.push(Unreadable::Prediction(error));
                None
            }
        };
        self.unproven += usize::from(record.as_ref().is_some_and(|record| record.files.is_none()));
        (record, prediction)
    }

    /// The frame of these cells.
    ///
    /// # Errors
    /// Those of [`frame::build`].
    pub fn frame(&self) -> Result<DataFrame, FrameError> {
        let rows: Vec<Row<'_>> = self
            .cells
            .iter()
            .map(|collected| Row {
                cell_id: &collected.cell_id,
                cell: &collected.cell,
                lineage: &collected.lineage,
                record: collected.record.as_ref(),
                hides_speeds: self.hides_speeds,
                prediction: collected.prediction.as_ref(),
            })
            .collect();
        frame::build(&rows)
    }
}
