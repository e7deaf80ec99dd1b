//! Reasons why a worker cannot start, or cannot leave a record. A failed training run is a record.

use std::io;
use std::path::PathBuf;

use records::store::StoreError;
use spec::SpecError;

/// The reason why a worker cannot start, or cannot leave a record.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The parent has ended.
    #[error("the run that started this cell has ended")]
    Orphan,
    /// The system refuses to tie the process to its parent.
    #[error("cannot tie this process to the run that started it")]
    Parent(#[source] io::Error),
    /// A file of the cell cannot be read or created.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// `read` or `create`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The inputs of another engine cannot be written, or the checkpoints not be read.
    #[error(transparent)]
    Inputs(#[from] train::TrainError),
    /// `cell.yaml` is damaged.
    #[error(transparent)]
    Cell(#[from] SpecError),
    /// A value of the cell is to be found before it runs.
    #[error("`auto_batch_size` and `gradient_checkpointing: {{auto: ...}}` are to be resolved before a cell runs")]
    Open,
    /// A variable has another value than the run gives it.
    #[error("{name} must be {} in the environment, as `expctl run` has it; it is {}", word(.value), word(.found))]
    Variable {
        /// The variable.
        name: &'static str,
        /// The value that the run gives it.
        value: Option<String>,
        /// The value that it has.
        found: Option<String>,
    },
    /// The process runs on another allocator.
    #[error("this build has no allocator `{asked}`; it runs on `{current}`")]
    Backend {
        /// The cell's allocator.
        asked: &'static str,
        /// The process's allocator.
        current: &'static str,
    },
    /// The CPU lacks the cell's instruction set.
    #[error("this CPU has no `{asked}`; it has `{best}`")]
    InstructionSet {
        /// The cell's instruction set.
        asked: &'static str,
        /// The best of the CPU.
        best: &'static str,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The threads cannot be started.
    #[error(transparent)]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The timeline cannot be recorded.
    #[error("cannot record a timeline")]
    Timeline(#[source] io::Error),
    /// The record cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The value of a variable, for messages.
fn word(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("unset")
}
