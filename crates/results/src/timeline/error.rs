//! Errors of timelines.

use std::path::PathBuf;

use records::store::StoreError;

/// The reason why a timeline cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// The file cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another program or another version wrote the file.
    #[error("`{}` is not a timeline of this version of expctl", .0.display())]
    Foreign(PathBuf),
    /// The events contradict each other or the ledger.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        what: String,
    },
}
