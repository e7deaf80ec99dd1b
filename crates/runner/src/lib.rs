//! Runs a study: one cell after another or several side by side, each in a process of its own. A crash, a kill or an out-of-memory is an
//! outcome and does not end the run. The results on disk are complete at any moment: a run can be killed and started
//! again.

mod attempt;
mod error;
mod events;
mod fetch;
mod job;
mod ladder;
mod larger;
mod lock;
mod options;
mod outcome;
mod predicted;
mod preflight;
mod progress;
pub mod protocol;
mod provenance;
mod python;
mod room;
mod run;
mod running;
pub mod samples;
mod schedule;
mod status;
mod summary;
mod task;
mod text;
mod trials;
mod worker;

pub use error::RunError;
pub use fetch::{Purpose, fetch, fetch_description};
pub use ladder::{add_fallbacks, follow};
pub use options::Options;
pub use outcome::log_tail;
pub use preflight::{PreflightError, preflight, trainable};
pub use progress::{Bars, Json, Plain, Progress, Silent};
pub use provenance::{built_from, hash_of_sources, provenance, sources};
pub use python::Python;
pub use run::run;
pub use schedule::{Schedule, due, schedule};
pub use summary::{Finished, Summary};
pub use task::{Cached, Overview, Task};
pub use text::would_fit;
pub use trials::tried;
pub use worker::Worker;
