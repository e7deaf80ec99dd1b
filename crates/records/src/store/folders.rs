//! The folders of studies and cells, and the names of their files.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{StoreError, io_error, is_absent};

/// The name of the resolved spec in a study's folder.
pub const STUDY_FILE: &str = "study.yaml";

/// The folder of a study, `results/<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyDir(PathBuf);

impl StudyDir {
    /// The study in this folder, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The resolved spec.
    pub fn study_yaml(&self) -> PathBuf {
        self.0.join(STUDY_FILE)
    }

    /// The file that a run locks while it writes into the folder.
    pub fn lock(&self) -> PathBuf {
        self.0.join(".lock")
    }

    /// The frame as Parquet.
    pub fn cells_parquet(&self) -> PathBuf {
        self.0.join("cells.parquet")
    }

    /// The frame of the recorded timelines.
    pub fn timeline_parquet(&self) -> PathBuf {
        self.0.join("timeline.parquet")
    }

    /// The frame as CSV.
    pub fn cells_csv(&self) -> PathBuf {
        self.0.join("cells.csv")
    }

    /// The folder of one cell; `id` is the cell's full id.
    pub fn cell(&self, id: &str) -> CellDir {
        CellDir(self.0.join("cells").join(id))
    }

    /// The folder of a real step with a cell, taken to see if the cell fits.
    pub fn trial(&self, id: &str) -> CellDir {
        CellDir(self.0.join("trials").join(id))
    }

    /// The folders of all cells that were ever started, in the order of their ids.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn cells(&self) -> Result<Vec<CellDir>, StoreError> {
        let path = self.0.join("cells");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(io_error("list", &path)(error)),
        };
        let mut cells = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io_error("list", &path))?;
            if is_cell_id(&entry.file_name().to_string_lossy()) {
                cells.push(CellDir(entry.path()));
            }
        }
        cells.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(cells)
    }
}

/// The folder of a cell, `results/<name>/cells/<id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellDir(PathBuf);

impl CellDir {
    /// The cell in this folder, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The cell's id: the folder's name.
    pub fn id(&self) -> String {
        self.0
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// The full configuration.
    pub fn cell_yaml(&self) -> PathBuf {
        self.0.join("cell.yaml")
    }

    /// The steps, one in each line.
    pub fn steps(&self) -> PathBuf {
        self.0.join("steps.jsonl")
    }

    /// The outcome. Without a record there is no result.
    pub fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// The prediction from before the run.
    pub fn prediction(&self) -> PathBuf {
        self.0.join("prediction.json")
    }

    /// The ledger's events, if they were recorded.
    pub fn timeline(&self) -> PathBuf {
        self.0.join("timeline.bin")
    }

    /// The folder of the checkpoints; absent unless the cell is being trained or was ended.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// The child's stderr.
    pub fn log(&self) -> PathBuf {
        self.0.join("log.txt")
    }

    /// The trained adapter in PEFT's format.
    pub fn adapter(&self) -> PathBuf {
        self.0.join("adapter")
    }
}

/// True if a name has the form of a cell's id: 12 lower-case hex digits.
pub fn is_cell_id(name: &str) -> bool {
    name.len() == 12 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
