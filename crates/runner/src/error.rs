//! Reasons why a run cannot go on. A failed cell is an outcome instead.

use std::io;
use std::path::PathBuf;

use plan::{CellError, PlanError};
use records::store::StoreError;

/// The reason why a run cannot go on.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message documents its variant and fields")]
pub enum RunError {
    #[error("cannot use `{}` as the study's folder; --results names another", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("`{}` holds the study `{found}`, not `{name}`; --results names another folder", path.display())]
    OtherStudy { path: PathBuf, found: String, name: String },
    #[error("another run{} is writing into `{}`; wait for it, or give this one --results DIR", by(holder), path.display())]
    Locked { path: PathBuf, holder: Option<u32> },
    #[error("cell {cell_id}: {what}; the cells that finished are kept, and the same command goes on from there")]
    Cell {
        cell_id: String,
        what: &'static str,
        source: io::Error,
    },
    #[error("a cell of `stack: torch` cannot be planned; nothing was run")]
    Plan(#[source] Box<CellError>),
    #[error("a value that the spec leaves open cannot be found; nothing was run")]
    Resolve(#[source] Box<PlanError>),
    #[error("a result cannot be kept; those before it are, and the same command goes on from there")]
    Store(#[from] StoreError),
    #[error("cannot wait for the process of a cell; the cells that finished are kept")]
    Wait(#[source] io::Error),
    #[error("cannot find this program")]
    Program(#[source] io::Error),
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
}

impl From<PlanError> for RunError {
    fn from(error: PlanError) -> Self {
        Self::Resolve(Box::new(error))
    }
}

fn by(holder: &Option<u32>) -> String {
    holder.map_or_else(String::new, |id| format!(" (process {id})"))
}
