//! Records and predictions on disk.

use std::fs;
use std::io;

use super::error::{StoreError, invalid, io_error, is_absent};
use super::folders::CellDir;
use super::write::{write_atomically, write_if_changed};
use crate::Record;
use crate::prediction::Prediction;

/// Writes a cell's outcome. After a crash at any moment the record is complete, or it is not there.
///
/// # Errors
/// The file cannot be written.
pub fn write_record(dir: &CellDir, record: &Record) -> Result<(), StoreError> {
    let path = dir.record();
    let mut json = serde_json::to_vec_pretty(record).map_err(|source| StoreError::Invalid {
        what: "record",
        path: path.clone(),
        source,
    })?;
    json.push(b'\n');
    write_atomically(&path, &json)
}

/// The outcome of a cell; `None` if it has none yet.
///
/// # Errors
/// The record is cut short, of another version, or of another cell.
pub fn read_record(dir: &CellDir) -> Result<Option<Record>, StoreError> {
    let path = dir.record();
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let record: Record = serde_json::from_slice(&json).map_err(|source| invalid("record", &path, source))?;
    if record.cell_id != dir.id() {
        return Err(StoreError::Foreign {
            path,
            expected: dir.id(),
            found: record.cell_id,
        });
    }
    Ok(Some(record))
}

/// Writes a cell's prediction.
///
/// # Errors
/// The file cannot be written.
pub fn write_prediction(dir: &CellDir, prediction: &Prediction) -> Result<(), StoreError> {
    let path = dir.prediction();
    let mut json = serde_json::to_vec_pretty(prediction).map_err(|source| invalid("prediction", &path, source))?;
    json.push(b'\n');
    write_if_changed(&path, &json).map(drop)
}

/// The prediction of a cell from before its run; `None` if there is none.
///
/// # Errors
/// The file cannot be read, or is of another version.
pub fn read_prediction(dir: &CellDir) -> Result<Option<Prediction>, StoreError> {
    let path = dir.prediction();
    match fs::read(&path) {
        Ok(json) => serde_json::from_slice(&json)
            .map(Some)
            .map_err(|source| invalid("prediction", &path, source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", &path)(error)),
    }
}
