//! Records and predictions on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::error::{StoreError, invalid, io_error, is_absent};
use super::folders::CellDir;
use super::seal::{open_json, seal_json, sha256_of_file};
use super::write::{write_atomically, write_if_changed};
use crate::Record;
use crate::prediction::Prediction;

/// Writes a cell's outcome, with the hashes of the files that belong to it. After a crash at any moment the record is
/// complete, or it is not there.
///
/// # Errors
/// The file cannot be written, or one beside it not read.
pub fn write_record(dir: &CellDir, record: &Record) -> Result<(), StoreError> {
    let path = dir.record();
    let mut files = BTreeMap::new();
    for (name, path) in files_beside(dir) {
        files.extend(sha256_of_file(&path)?.map(|hash| (name.to_owned(), hash)));
    }
    let record = Record {
        files: Some(files),
        ..record.clone()
    };
    let json = serde_json::to_vec_pretty(&record).map_err(|source| invalid("record", &path, source))?;
    write_atomically(&path, &seal_json(&json, ""))
}

/// The files beside a record whose hashes it has.
fn files_beside(dir: &CellDir) -> [(&'static str, PathBuf); 2] {
    [("steps.jsonl", dir.steps()), ("timeline.bin", dir.timeline())]
}

/// Checks the files beside a record by its hashes. One that was removed shows nothing false, and is no error.
///
/// # Errors
/// A file was changed, or cannot be read.
pub fn check_files(dir: &CellDir, record: &Record) -> Result<(), StoreError> {
    let Some(files) = &record.files else { return Ok(()) };
    for (name, path) in files_beside(dir) {
        let found = sha256_of_file(&path)?;
        if found.is_some() && found.as_ref() != files.get(name) {
            return Err(StoreError::Damaged(path));
        }
    }
    Ok(())
}

/// The outcome of a cell; `None` if it has none yet.
///
/// # Errors
/// The record is cut short, changed, of another version, or of another cell.
pub fn read_record(dir: &CellDir) -> Result<Option<Record>, StoreError> {
    let path = dir.record();
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    // The id is in it.
    let (json, is_sealed) = open_json(&json, "", &path)?;
    let record: Record = serde_json::from_slice(&json).map_err(|source| invalid("record", &path, source))?;
    if record.cell_id != dir.id() {
        return Err(StoreError::Foreign {
            path,
            expected: dir.id(),
            found: record.cell_id,
        });
    }
    if record.files.is_some() && !is_sealed {
        return Err(StoreError::Damaged(path));
    }
    Ok(Some(record))
}

/// Writes a cell's prediction.
///
/// # Errors
/// The file cannot be written.
pub fn write_prediction(dir: &CellDir, prediction: &Prediction) -> Result<(), StoreError> {
    let path = dir.prediction();
    let json = serde_json::to_vec_pretty(prediction).map_err(|source| invalid("prediction", &path, source))?;
    write_if_changed(&path, &seal_json(&json, &dir.id())).map(drop)
}

/// The prediction of a cell from before its run; `None` if there is none.
///
/// # Errors
/// The file cannot be read, was changed, or is of another version.
pub fn read_prediction(dir: &CellDir) -> Result<Option<Prediction>, StoreError> {
    let path = dir.prediction();
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    let (json, _) = open_json(&json, &dir.id(), &path)?;
    serde_json::from_slice(&json)
        .map(Some)
        .map_err(|source| invalid("prediction", &path, source))
}
