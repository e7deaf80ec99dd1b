//! Records and predictions on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::{StoreError, invalid, io_error};
use super::folders::CellDir;
use super::place::{make_room_unless_file, read_in_place};
use super::seal::{is_sealed, open_json, seal_json, sha256_of_file};
use super::write::{write_atomically, write_own};
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
    for path in files_beside(dir) {
        files.extend(sha256_of_file(&path)?.map(|hash| (name(&path), hash)));
    }
    let record = Record {
        files: Some(files),
        ..record.clone()
    };
    let json = serde_json::to_vec_pretty(&record).map_err(|source| invalid("record", &path, source))?;
    make_room_unless_file(&path).map_err(io_error("replace", &path))?;
    write_atomically(&path, &seal_json(&json, ""))
}

/// The files beside a record whose hashes it has.
fn files_beside(dir: &CellDir) -> [PathBuf; 2] {
    [dir.steps(), dir.timeline()]
}

/// Checks the files beside a record by its hashes.
///
/// # Errors
/// Those of [`check_file`].
pub fn check_files(dir: &CellDir, record: &Record) -> Result<(), StoreError> {
    files_beside(dir).iter().try_for_each(|path| check_file(record, path))
}

/// Checks a file beside a record by its hash. One that was removed shows nothing false, and is no error.
///
/// # Errors
/// The file was changed, or cannot be read.
pub fn check_file(record: &Record, path: &Path) -> Result<(), StoreError> {
    let Some(files) = &record.files else { return Ok(()) };
    match sha256_of_file(path)? {
        Some(found) if files.get(&name(path)) != Some(&found) => Err(StoreError::Damaged(path.to_path_buf())),
        _ => Ok(()),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The outcome of a cell; `None` if it has none yet.
///
/// # Errors
/// Those of [`read_record_at`], and the record is of another cell.
pub fn read_record(dir: &CellDir) -> Result<Option<Record>, StoreError> {
    match read_record_at(&dir.record())? {
        Some(record) if record.cell_id != dir.id() => Err(StoreError::Foreign {
            path: dir.record(),
            expected: dir.id(),
            found: record.cell_id,
        }),
        record => Ok(record),
    }
}

/// The record in a file; `None` if there is none.
///
/// # Errors
/// The record is cut short, changed, or of another version.
pub fn read_record_at(path: &Path) -> Result<Option<Record>, StoreError> {
    let Some(json) = read_in_place(path)? else {
        return Ok(None);
    };
    // The cell's id is in it.
    let (json, is_sealed) = open_json(&json, "", path)?;
    let mut record: Record = serde_json::from_slice(&json).map_err(|source| invalid("record", path, source))?;
    match (&record.files, is_sealed) {
        (Some(_), false) => return Err(StoreError::Damaged(path.to_path_buf())),
        (Some(_), true) => {}
        // Older versions wrote null where there was no held-out data.
        (None, _) => {
            if let Some(measured) = &mut record.measured {
                measured.loss_eval = measured.loss_eval.filter(|loss| !loss.is_nan());
            }
        }
    }
    Ok(Some(record))
}

/// Checks that a file without a seal is of an older version, as its record then is.
///
/// # Errors
/// The record has a seal, so the file had one.
pub(super) fn check_older(dir: &CellDir, path: &Path) -> Result<(), StoreError> {
    match read_in_place(&dir.record()) {
        Ok(Some(record)) if is_sealed(&record) => Err(StoreError::Damaged(path.to_path_buf())),
        _ => Ok(()),
    }
}

/// Writes a cell's prediction.
///
/// # Errors
/// The file cannot be written.
pub fn write_prediction(dir: &CellDir, prediction: &Prediction) -> Result<(), StoreError> {
    let path = dir.prediction();
    let json = serde_json::to_vec_pretty(prediction).map_err(|source| invalid("prediction", &path, source))?;
    write_own(&path, &seal_json(&json, &dir.id())).map(drop)
}

/// The prediction of a cell from before its run; `None` if there is none.
///
/// # Errors
/// The file cannot be read, was changed, or is of another version.
pub fn read_prediction(dir: &CellDir) -> Result<Option<Prediction>, StoreError> {
    let path = dir.prediction();
    let Some(json) = read_in_place(&path)? else {
        return Ok(None);
    };
    let (json, is_sealed) = open_json(&json, &dir.id(), &path)?;
    if !is_sealed {
        check_older(dir, &path)?;
    }
    serde_json::from_slice(&json)
        .map(Some)
        .map_err(|source| invalid("prediction", &path, source))
}
