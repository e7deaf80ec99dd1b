//! The frame: a study as a table, one row per cell. Reports read nothing else.

mod build;
mod column;
mod error;
mod files;
mod kept;
mod older;
mod replan;

pub use build::{Row, build, of_plan};
pub use column::column;
pub use error::FrameError;
pub use files::parquet;
pub use files::{csv, read, write};
pub use kept::KeptFrame;
pub use replan::{Plans, Replan, Replanned, Stale, replan, stale};
