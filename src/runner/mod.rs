//! Runs a study: one cell after another, each in a process of its own, so that a crash, a kill or an out-of-memory is an
//! outcome and not an end. What a run leaves is complete at any moment: it can be killed and started again.

mod child;
mod error;
mod inbox;
mod lock;
mod outcome;
mod preflight;
mod progress;
mod provenance;
mod schedule;
mod study;
mod text;

pub use child::variables;
pub use error::RunError;
pub use outcome::{log_tail, oom_file};
pub use preflight::{PreflightError, preflight, trainable};
pub use progress::{Bars, Json, Plain, Progress, Silent};
pub use provenance::{instruction_set, provenance, threads};
pub use schedule::{Kept, Overview, Schedule, Task, schedule};
pub use study::{Finished, Options, Summary, run};
