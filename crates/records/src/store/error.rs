//! Errors of a study's files.

use std::io;
use std::path::{Path, PathBuf};

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
    /// The hash of a file does not hold.
    #[error("`{}` was changed after it was written: its SHA-256 does not hold; `expctl run` makes it again", .0.display())]
    Damaged(PathBuf),
    /// Something else lies in a file's place.
    #[error("`{}` is a folder or a link in place of a file; `expctl run` moves it away", .0.display())]
    NotAFile(PathBuf),
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

/// The error of an operation on a file.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io {
        action,
        path: path.to_path_buf(),
        source,
    }
}

/// The error of a file with wrong content.
pub(super) fn invalid(what: &'static str, path: &Path, source: serde_json::Error) -> StoreError {
    if source.is_eof() {
        return StoreError::CutShort(path.to_path_buf());
    }
    StoreError::Invalid {
        what,
        path: path.to_path_buf(),
        source,
    }
}

/// True if there is no such file, or a file in place of its folder.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
