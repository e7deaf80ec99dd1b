//! The steps of a cell on disk.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::{StoreError, invalid, io_error};
use super::place::read_in_place;
use crate::Step;

/// Writes `steps.jsonl`. Each step is a line that one call writes, so that a kill costs the last line at most.
#[derive(Debug)]
pub struct StepLog {
    path: PathBuf,
    file: File,
}

impl StepLog {
    /// Starts an empty log. A new attempt replaces the steps of the one before.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(path)
            .map_err(io_error("create", path))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
        })
    }

    /// Adds a step.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, step: &Step) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(step).map_err(|source| invalid("step", &self.path, source))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(io_error("write", &self.path))
    }
}

/// The steps of a cell's last attempt, without a last line that a kill cut short.
///
/// # Errors
/// The file cannot be read, or has a line of another version.
pub fn read_steps(path: &Path) -> Result<Vec<Step>, StoreError> {
    let Some(bytes) = read_in_place(path)? else {
        return Ok(Vec::new());
    };
    let text = String::from_utf8(bytes).map_err(|_| StoreError::Damaged(path.to_path_buf()))?;
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).map_err(|source| invalid("step", path, source)))
        .collect()
}
