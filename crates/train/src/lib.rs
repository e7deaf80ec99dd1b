//! Training: the run, the optimizer step, the chain of segments, and what memory does meanwhile.
//!
//! Training takes options. It reads no YAML, no environment, and no clock that changes numbers.

pub mod checkpoint;
mod device;
mod dry_run;
mod error;
mod host_weights;
mod inputs;
mod loss_scaler;
mod memory_meter;
mod profile;
mod run;
mod save;
pub mod segments;
mod start;
mod steps;
mod summary;
mod trainer;
mod trial;

pub use dry_run::{DryRun, adapter_file_bytes, dry_run};
pub use error::TrainError;
pub use inputs::{Inputs, Places, write_inputs};
pub use run::{Outputs, Trained, run};
pub use trainer::{Evaluation, StepOutcome, Trainer};
pub use trial::trial;
