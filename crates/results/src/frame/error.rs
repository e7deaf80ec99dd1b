//! Errors of frames.

use std::path::PathBuf;

use polars_core::prelude::PolarsError;
use records::store::StoreError;

use crate::timeline::TimelineError;

/// The reason why a frame could not be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The columns do not make a frame.
    #[error("cannot make the frame")]
    Polars(#[from] PolarsError),
    /// A file of the study.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A timeline.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    /// A frame's file.
    #[error("cannot read the frame `{}`: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reader's message.
        why: String,
    },
}
