//! Errors of reports.

use std::io;
use std::path::PathBuf;

use polars_core::prelude::PolarsError;

use super::chart::ChartError;
use crate::results::frame::FrameError;
use crate::results::store::StoreError;
use crate::spec::SpecError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read the template `{}`", path.display())]
    TemplateFile { path: PathBuf, source: io::Error },
    /// The message shows the place in the template.
    #[error("{0}")]
    Template(String),
    #[error("cannot read the frame")]
    Frame(#[from] PolarsError),
    /// Something that the spec asks the report to show; the message shows the place in the spec.
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Build(#[from] FrameError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
