//! A study's files. A write is atomic: the file is complete, or it is not there.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::prediction::Prediction;
use super::record::{Record, Step};
use crate::spec::STUDY_FILE;

/// The reason why a study's file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// A verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A write was interrupted.
    #[error("`{}` is cut short; `expctl run` makes it again", .0.display())]
    CutShort(PathBuf),
    /// Another version or another program wrote the file.
    #[error("`{}` is not a {what} of this version of expctl", path.display())]
    Invalid {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reader's error.
        source: serde_json::Error,
    },
    /// The record is in a wrong folder.
    #[error("`{}` holds the record of cell {found}, not of {expected}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The folder's cell.
        expected: String,
        /// The record's cell.
        found: String,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io {
        action,
        path: path.to_path_buf(),
        source,
    }
}

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

    /// The folders of all cells that were ever started, in the order of their ids.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn cells(&self) -> Result<Vec<CellDir>, StoreError> {
        let path = self.0.join("cells");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
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
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
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

fn invalid(what: &'static str, path: &Path, source: serde_json::Error) -> StoreError {
    if source.is_eof() {
        return StoreError::CutShort(path.to_path_buf());
    }
    StoreError::Invalid {
        what,
        path: path.to_path_buf(),
        source,
    }
}

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
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("read", path)(error)),
    };
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).map_err(|source| invalid("step", path, source)))
        .collect()
}

/// The prefix of temporary files.
const TEMPORARY: &str = ".expctl-";

/// Removes the temporary files of a process that was killed in the middle of a write.
///
/// # Errors
/// The folder cannot be listed, or a file not removed.
pub fn remove_temporaries(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Replaces a file: writes a temporary file beside it, flushes that to the disk, renames it, and flushes the folder.
///
/// # Errors
/// One of these fails; the old file then stays.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            // The umask decides, as for any new file. tempfile's own default is private to the user.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            // tempfile's message names the temporary file, which means nothing to the reader.
            .map_err(|error| io::Error::from(error.kind()))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(io_error("write", path))
}

/// Like [`write_atomically`], but leaves a file alone that already has these bytes. Returns true if it wrote.
///
/// # Errors
/// Those of [`write_atomically`].
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    write_atomically(path, bytes).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
    use super::*;

    fn cell_dir(root: &Path) -> CellDir {
        let dir = StudyDir::new(root).cell("0123456789ab");
        fs::create_dir_all(dir.path()).unwrap();
        dir
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let root = tempfile::tempdir().unwrap();
        let dir = cell_dir(root.path());
        assert_eq!(read_record(&dir).unwrap(), None);
        let record = sample::ok("0123456789ab");
        write_record(&dir, &record).unwrap();
        assert_eq!(read_record(&dir).unwrap(), Some(record));
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays behind");
    }

    #[test]
    fn a_record_cut_short_says_so() {
        let root = tempfile::tempdir().unwrap();
        let dir = cell_dir(root.path());
        write_record(&dir, &sample::ok("0123456789ab")).unwrap();
        let whole = fs::read(dir.record()).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 3] {
            fs::write(dir.record(), &whole[..length]).unwrap();
            let error = read_record(&dir).unwrap_err();
            assert!(matches!(error, StoreError::CutShort(_)), "{length}: {error}");
        }
    }

    #[test]
    fn another_cells_record_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let dir = cell_dir(root.path());
        write_record(&dir, &sample::ok("ffffffffffff")).unwrap();
        let error = read_record(&dir).unwrap_err().to_string();
        assert!(
            error.ends_with("holds the record of cell ffffffffffff, not of 0123456789ab"),
            "{error}"
        );
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let dir = cell_dir(root.path());
        fs::write(dir.record(), "{\"hello\": 1}").unwrap();
        let error = anyhow::Error::from(read_record(&dir).unwrap_err());
        assert!(format!("{error:#}").contains("unknown field `hello`"), "{error:#}");
    }

    #[test]
    fn steps_survive_a_kill_in_the_middle_of_a_line() {
        let root = tempfile::tempdir().unwrap();
        let dir = cell_dir(root.path());
        let mut log = StepLog::create(&dir.steps()).unwrap();
        let steps = [sample::step(1), sample::step(2)];
        for step in &steps {
            log.append(step).unwrap();
        }
        log.file.write_all(b"{\"step\":3,\"lo").unwrap();
        assert_eq!(read_steps(&dir.steps()).unwrap(), steps);
        assert_eq!(read_steps(&root.path().join("none")).unwrap(), []);
    }

    #[test]
    fn a_loss_that_is_not_a_number_can_be_read_back() {
        let root = tempfile::tempdir().unwrap();
        let dir = cell_dir(root.path());
        let step = Step {
            loss: f64::NAN,
            ..sample::step(1)
        };
        StepLog::create(&dir.steps()).unwrap().append(&step).unwrap();
        assert!(read_steps(&dir.steps()).unwrap()[0].loss.is_nan());
    }

    #[test]
    fn only_cell_folders_are_listed() {
        let root = tempfile::tempdir().unwrap();
        for name in ["0123456789ab", "00000000000f", "notes", "0123456789AB"] {
            fs::create_dir_all(root.path().join("cells").join(name)).unwrap();
        }
        let ids: Vec<_> = StudyDir::new(root.path())
            .cells()
            .unwrap()
            .iter()
            .map(CellDir::id)
            .collect();
        assert_eq!(ids, ["00000000000f", "0123456789ab"]);
        assert_eq!(StudyDir::new(root.path().join("none")).cells().unwrap(), []);
    }

    #[test]
    fn unchanged_files_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.md");
        assert!(write_if_changed(&path, b"one").unwrap());
        assert!(!write_if_changed(&path, b"one").unwrap());
        assert!(write_if_changed(&path, b"two").unwrap());
        let error = write_if_changed(&root.path().join("none/a.md"), b"one").unwrap_err();
        assert!(error.to_string().starts_with("cannot write `"), "{error}");
    }
}
