//! The configuration of a cell on disk.

use std::fs;

use super::error::{StoreError, io_error};
use super::folders::CellDir;
use super::seal::{check_yaml, seal_yaml};
use super::write::write_if_changed;

/// Writes a cell's configuration.
///
/// # Errors
/// The file cannot be written.
pub fn write_cell_yaml(dir: &CellDir, yaml: &str) -> Result<(), StoreError> {
    write_if_changed(&dir.cell_yaml(), seal_yaml(yaml, &dir.id()).as_bytes()).map(drop)
}

/// A cell's configuration as YAML.
///
/// # Errors
/// The file cannot be read, or was changed after it was written.
pub fn read_cell_yaml(dir: &CellDir) -> Result<String, StoreError> {
    let path = dir.cell_yaml();
    let yaml = fs::read_to_string(&path).map_err(io_error("read", &path))?;
    check_yaml(&yaml, &dir.id(), &path)?;
    Ok(yaml)
}
