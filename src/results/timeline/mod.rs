//! What the ledger's events say: read from `timeline.bin`, replayed, and made into a small frame a study.

mod file;
mod frame;
mod peaks;
mod replay;
mod step;

pub use file::{Recording, read};
pub use frame::{build, write};
pub use replay::{Allocation, Shape, State};
pub use step::{Held, Kept, Moment, PeakOfStep, RecordedStep, StudiedStep, folded, steps, studied};

use std::path::PathBuf;

use crate::results::store::StoreError;

/// Why a timeline cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("`{}` is not a timeline of this version of expctl", .0.display())]
    Foreign(PathBuf),
    /// Events and ledger disagree, or an event makes no sense.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
}
