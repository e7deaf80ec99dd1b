//! Errors of planning.

use arch::{ArchError, check::positions};
use base::text::format::bytes;
use cell::Invalid;
use data::DataError;
use peft::AdapterError;
use spec::{Study, StudyCell, key_in_front};
use train::TrainError;

/// Why a cell could not be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A message of PyTorch is compared with a cell of our trainer.
    #[error("the message is PyTorch's, and this cell is of our trainer: leave --stack candle out, or set stack=torch")]
    NotPytorch,
    /// The model cannot be read.
    #[error(transparent)]
    Model(#[from] ArchError),
    /// `adapter_config` does not suit the model.
    #[error("`adapter_config`: {0}")]
    Adapter(#[from] AdapterError),
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Our trainer would fail before its first number.
    #[error(transparent)]
    Training(Box<TrainError>),
    /// Sequences are longer than the model can take.
    #[error("{}, fewer than `{asked_by}` asks for", positions(.model, *.most, *.own))]
    Positions {
        /// The model, as the spec names it.
        model: String,
        /// The largest number of positions.
        most: usize,
        /// Those that virtual tokens take.
        own: usize,
        /// The key that decides the length.
        asked_by: &'static str,
    },
    /// The largest value of a key is asked for that the cell does not heed.
    #[error("`{key}` has no effect with `adapter: {adapter}`, so no value of it is the largest")]
    Unheeded {
        /// The key whose largest value is asked for.
        key: &'static str,
        /// The method that does not heed it.
        adapter: &'static str,
    },
    /// The model never generates.
    #[error("`torch.generation.eval_steps`: the training ends after {0} steps")]
    NeverGenerates(usize),
    /// Our trainer's memory on a GPU is its pool's, of which there is no account.
    #[error(
        "`device: {0}`: what our trainer takes on a GPU is measured, not predicted; without the key, the plan is of a CPU"
    )]
    Device(String),
    /// A value is left open.
    #[error(
        "`auto_batch_size` and `gradient_checkpointing: {{auto: ...}}` are to be resolved before a cell is planned"
    )]
    Open,
    /// The model lacks blocks or modules that a key of the cell names.
    #[error("`{0}`: {1}")]
    Names(&'static str, base::text::Mistake),
    /// More is needed than a plan of the allocator can hold.
    #[error("live tensors come to {}, more than is planned: look at `max_seq_length` and `batch_size`", bytes((*.0).into()))]
    TooLarge(u64),
    /// No layer would get an adapter.
    #[error("`target_modules`: the model `{0}` has none of these layers, which PEFT refuses")]
    NoModule(String),
    /// The release of a library has not been studied.
    #[error("{0}")]
    Version(#[from] base::text::Mistake),
    /// The settings of PyTorch's allocator are wrong.
    #[error("{0}")]
    Allocator(Box<Invalid>),
    /// The GPU of the budget has no kernels for what the cell asks for.
    #[error("{0}")]
    Gpu(Box<Invalid>),
    /// A search may change nothing that would save memory.
    #[error("nothing may change: no key that saves memory has another value to try in this cell")]
    NothingToVary,
    /// A search is to try a value with which no cell can be planned.
    #[error("fit.vary.{key}: {value} cannot be planned: {error}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value, in YAML.
        value: String,
        /// The reason.
        error: Box<PlanError>,
    },
    /// A search has nothing to fit a cell into.
    #[error(
        "there is no budget: give one with --budget, such as 6GiB or rtx-3060-12gb, or the cell a `gpu` or `device_memory`"
    )]
    NoBudget,
    /// Our trainer computes on no GPU that could be chosen.
    #[error("GPUs are chosen for `stack: torch`; this cell is of our own trainer")]
    NoGpu,
    /// What is to share the cell's training cannot.
    #[error("{by} cannot share it: {why}")]
    NotShared {
        /// FSDP or DeepSpeed.
        by: &'static str,
        /// The reason.
        why: String,
    },
}

/// A cell of a study that could not be planned, and where the key at fault was written.
#[derive(Debug, thiserror::Error)]
#[error("{place}{cell}")]
pub struct CellError {
    place: String,
    cell: String,
    #[source]
    source: Box<PlanError>,
}

impl CellError {
    /// The error of a cell of `study`.
    pub fn new(study: &Study, study_cell: &StudyCell, source: PlanError) -> Self {
        Self {
            place: study.place_of(study_cell, &source.key()),
            cell: study.name_in_study(study_cell),
            source: Box::new(source),
        }
    }
}

impl From<TrainError> for PlanError {
    fn from(error: TrainError) -> Self {
        Self::Training(Box::new(error))
    }
}

impl PlanError {
    /// True if the process that read the samples ended before it could say what is wrong with them.
    pub fn is_of_ended_process(&self) -> bool {
        matches!(self, Self::Data(DataError::Ended(_)))
    }

    /// The key at fault; the model where the message names none.
    fn key(&self) -> String {
        let key = match self {
            Self::Positions { asked_by, .. } => *asked_by,
            Self::Allocator(invalid) | Self::Gpu(invalid) => &*invalid.key,
            Self::Data(_) => "data",
            Self::Training(error) if matches!(**error, TrainError::Data(_)) => "data",
            Self::NoGpu => "stack",
            Self::NotShared { .. } => "distributed",
            // Of the command line, or of a section beside the cells.
            Self::NothingToVary | Self::Value { .. } | Self::NoBudget => "",
            error => return key_in_front(&error.to_string()).unwrap_or("model").to_owned(),
        };
        key.to_owned()
    }
}
