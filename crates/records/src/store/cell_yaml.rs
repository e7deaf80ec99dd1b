//! The configuration of a cell on disk.

use std::io;

use super::error::{StoreError, io_error};
use super::folders::CellDir;
use super::place::read_in_place;
use super::records::check_older;
use super::seal::{check_yaml, seal_yaml};
use super::write::write_own;

/// Writes a cell's configuration.
///
/// # Errors
/// The file cannot be written.
pub fn write_cell_yaml(dir: &CellDir, yaml: &str) -> Result<(), StoreError> {
    let path = dir.cell_yaml();
    write_own(&path, seal_yaml(yaml, &dir.id()).as_bytes()).map(drop)
}

/// A cell's configuration as YAML.
///
/// # Errors
/// The file cannot be read, or was changed after it was written.
pub fn read_cell_yaml(dir: &CellDir) -> Result<String, StoreError> {
    let path = dir.cell_yaml();
    let bytes = read_in_place(&path)?.ok_or_else(|| io_error("read", &path)(io::ErrorKind::NotFound.into()))?;
    let yaml = String::from_utf8(bytes).map_err(|_| StoreError::Damaged(path.clone()))?;
    if !check_yaml(&yaml, &dir.id(), &path)? {
        check_older(dir, &path)?;
    }
    Ok(yaml)
}
