//! Errors of reports.

use std::io;
use std::path::PathBuf;

use chart::ChartError;
use polars_core::prelude::PolarsError;
use records::store::StoreError;
use results::frame::FrameError;
use spec::SpecError;

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The template's file.
    #[error("cannot read the template `{}`", path.display())]
    TemplateFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A mistake in a template; the message shows the place in the template.
    #[error("{0}")]
    Template(String),
    /// A frame in memory.
    #[error("cannot read the frame")]
    Frame(#[from] PolarsError),
    /// Two methods that cannot be compared.
    #[error("{0}")]
    OneMethod(String),
    /// A mistake in a published figure or a claim; the message shows the place in the spec.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A frame that cannot be made.
    #[error(transparent)]
    Build(#[from] FrameError),
    /// A chart.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// A file of the report.
    #[error(transparent)]
    Store(#[from] StoreError),
}
