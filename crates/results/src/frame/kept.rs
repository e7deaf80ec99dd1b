//! Frames that are kept beside a report, so that the report can be checked and made again without the study's folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base::foreign;
use polars_core::prelude::*;
use records::store::{StoreError, move_aside, write_atomically};
use spec::Invocation;

use super::column::column;
use super::error::FrameError;
use super::files::{parquet_with, read_parquet};
use super::older;
use crate::columns::schema;
use crate::datum::Datum;

/// The entry of the file's metadata that holds the study's invocation, as JSON. It also tells our files from others.
const INVOCATION: &str = "expctl.invocation";

/// A frame beside a report, and the command that its study came from.
#[derive(Debug, Clone)]
pub struct KeptFrame {
    /// The frame, without the columns in which every value is null.
    frame: DataFrame,
    /// The command that the study came from.
    invocation: Invocation,
    /// False if it was read from a file without a hash.
    is_proven: bool,
}

impl KeptFrame {
    /// The frame to keep. Columns without a value are left out, because reading brings them back.
    pub fn new(frame: &DataFrame, invocation: &Invocation) -> Self {
        let is_empty = |name: &&String| {
            frame
                .column(name)
                .is_ok_and(|column| column.null_count() == column.len())
        };
        let columns = schema().into_iter().filter(|(_, kind)| kind.is_some());
        let names: Vec<String> = columns.map(|(name, _)| name).collect();
        Self {
            frame: frame.drop_many(names.iter().filter(is_empty).map(String::as_str)),
            invocation: invocation.clone(),
            is_proven: true,
        }
    }

    /// Reads the frame at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a kept frame.
    pub fn read(path: &Path) -> Result<Self, FrameError> {
        let wrong = |why: String| FrameError::File {
            path: path.to_path_buf(),
            why,
        };
        let file = foreign::open(path).map_err(|error| wrong(error.to_string()))?;
        let read = read_parquet(file).map_err(wrong)?;
        let invocation = read
            .entries
            .iter()
            .find_map(|(key, value)| (key == INVOCATION).then_some(value))
            .ok_or_else(|| wrong("it is not a frame that expctl wrote beside a report".to_owned()))?;
        Ok(Self {
            invocation: serde_json::from_str(invocation).map_err(|error| wrong(error.to_string()))?,
            frame: read.frame,
            is_proven: read.is_proven,
        })
    }

    /// The command that the study came from.
    pub fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// The frame as it was kept.
    pub fn frame(&self) -> &DataFrame {
        &self.frame
    }

    /// The frame of cells with all columns of this version, in their order: those that the file lacks are null, and
    /// those of other versions are left out.
    ///
    /// # Errors
    /// Columns that do not make a frame.
    pub fn cells(&self) -> Result<DataFrame, FrameError> {
        let kept = older::translate(self.frame.clone())?;
        let mut columns = Vec::new();
        for (name, kind) in schema() {
            match kind {
                Some(kind) => columns.push(match kept.column(&name) {
                    Ok(found) => found.clone(),
                    Err(_) => column(&name, kind, (0..kept.height()).map(|_| Datum::Null))?,
                }),
                // The columns of a map of free names.
                None => {
                    let prefix = format!("{name}.");
                    let below = |column: &&Column| column.name().starts_with(&prefix);
                    columns.extend(kept.columns().iter().filter(below).cloned());
                }
            }
        }
        Ok(DataFrame::new(kept.height(), columns)?)
    }

    /// Writes the frame to `path`. A file that holds it already is left alone, and the file of an empty frame is
    /// removed. Returns the path if the file changed.
    ///
    /// # Errors
    /// The file cannot be written, or is not a kept frame.
    pub fn write(&self, path: &Path) -> Result<Option<PathBuf>, FrameError> {
        let damaged = Self::damage(path)?;
        if self.is_at(path) {
            return Ok(None);
        }
        if damaged == Some(Damaged::Unknown) {
            move_aside(path).map_err(|source| StoreError::Io {
                action: "move",
                path: path.to_path_buf(),
                source,
            })?;
        }
        if self.frame.height() > 0 {
            write_atomically(path, &self.bytes()?)?;
        } else {
            fs::remove_file(path).map_err(|source| StoreError::Io {
                action: "remove",
                path: path.to_path_buf(),
                source,
            })?;
        }
        Ok(Some(path.to_path_buf()))
    }

    /// True if the file at `path` holds this frame with its hash, or if the frame is empty and there is no file. Equal
    /// frames may differ in their bytes: the Parquet library decides on those.
    pub fn is_at(&self, path: &Path) -> bool {
        if self.frame.height() == 0 {
            return !path.exists();
        }
        Self::read(path).is_ok_and(|other| {
            other.is_proven && other.invocation == self.invocation && other.frame.equals_missing(&self.frame)
        })
    }

    /// Makes sure that a frame may be written to `path`: it may replace a kept frame, a damaged one too, and nothing
    /// else. A file that may be anybody's is moved aside.
    ///
    /// # Errors
    /// The file there is another one.
    pub fn check_replaceable(path: &Path) -> Result<(), FrameError> {
        Self::damage(path).map(drop)
    }

    /// The damage of the file that a frame may be written to; `None` if there is no file, or it is whole.
    fn damage(path: &Path) -> Result<Option<Damaged>, FrameError> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(metadata) if !metadata.is_file() => return Self::read(path).map(|_| None),
            _ => {}
        }
        match Self::read(path) {
            Ok(_) => Ok(None),
            Err(error) => Damaged::of(path).map(Some).ok_or(error),
        }
    }

    fn bytes(&self) -> PolarsResult<Vec<u8>> {
        // A map keeps the order of its keys, so equal invocations have equal texts.
        let invocation = serde_json::json!(self.invocation).to_string();
        parquet_with(&self.frame, vec![(INVOCATION.to_owned(), invocation)])
    }
}

/// What lies in the place of a frame that cannot be read.
#[derive(PartialEq)]
enum Damaged {
    /// A kept frame, by its metadata.
    Frame,
    /// A file without its end, where Parquet has its metadata: it may be anybody's.
    Unknown,
}

impl Damaged {
    /// What an unreadable file is; `None` if it is another's.
    fn of(path: &Path) -> Option<Self> {
        let bytes = foreign::read(path).ok()?;
        let has_entry = bytes
            .windows(INVOCATION.len())
            .any(|window| window == INVOCATION.as_bytes());
        match () {
            () if has_entry => Some(Self::Frame),
            () if bytes.is_empty() || bytes.starts_with(b"PAR1") && !bytes.ends_with(b"PAR1") => Some(Self::Unknown),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use cell::Cell;
    use records::sample;
    use spec::Lineage;

    use super::*;
    use crate::frame::{Row, build};

    fn frame() -> DataFrame {
        let mut cell = Cell::default();
        cell.env.insert("EMPTY".into(), None);
        let id = cell.id();
        let record = sample::ok(&id);
        let row = |record| Row {
            cell_id: &id,
            cell: &cell,
            lineage: &Lineage::Written,
            hides_speeds: false,
            record,
            prediction: None,
        };
        build(&[row(Some(&record)), row(None)]).unwrap()
    }

    fn written(kept: &KeptFrame) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        assert_eq!(kept.write(&path).unwrap(), Some(path.clone()));
        assert_eq!(kept.write(&path).unwrap(), None, "unchanged");
        (folder, path)
    }

    #[test]
    fn a_kept_frame_reads_like_the_whole_one() {
        let (frame, invocation) = (frame(), Invocation::default());
        let kept = KeptFrame::new(&frame, &invocation);
        assert!(kept.frame().width() < frame.width() - 20, "{}", kept.frame().width());
        let (_folder, path) = written(&kept);
        let back = KeptFrame::read(&path).unwrap();
        let cells = back.cells().unwrap();
        assert_eq!(cells.schema(), frame.schema());
        assert!(
            cells.equals_missing(&frame),
            "and `env.EMPTY`, which is null in all cells"
        );
        assert_eq!(*back.invocation(), invocation);
    }

    #[test]
    fn columns_of_other_versions_do_not_matter() {
        let mut frame = frame();
        frame.rename("loss_last", "loss_of_tomorrow".into()).unwrap();
        let (_folder, path) = written(&KeptFrame::new(&frame, &Invocation::default()));
        let cells = KeptFrame::read(&path).unwrap().cells().unwrap();
        assert!(cells.column("loss_of_tomorrow").is_err());
        assert_eq!(cells.column("loss_last").unwrap().null_count(), 2);
        assert_eq!(cells.column("steps").unwrap().null_count(), 1);
    }

    #[test]
    fn a_change_of_the_command_is_a_change() {
        let frame = frame();
        let (_folder, path) = written(&KeptFrame::new(&frame, &Invocation::default()));
        let other = Invocation {
            settings: vec!["rank=4".to_owned()],
            ..Invocation::default()
        };
        assert!(!KeptFrame::new(&frame, &other).is_at(&path));
        let empty = KeptFrame::new(&frame.head(Some(0)), &Invocation::default());
        assert_eq!(empty.write(&path).unwrap(), Some(path.clone()));
        assert!(!path.exists() && empty.is_at(&path));
    }
}
