//! Timelines: the ledger's events are read from `timeline.bin`, replayed, and summed up in a small frame per study.

mod error;
mod file;
mod frame;
mod peaks;
mod replay;
mod step;

pub use error::TimelineError;
pub use file::{Recording, read};
pub use frame::{build, write};
pub use replay::{Allocation, Shape, State};
pub use step::{
    Moment, RecordedStep, SavedTensors, StepAnalysis, StepPeak, Usage, module_pattern, recorded_steps, steady_step,
};
