//! What a cell leaves on disk: its prediction, a line for each step, and its record; the folders where they lie; and
//! the events that a worker sends while it trains. `schema` describes them for other programs.

mod event;
pub mod prediction;
mod provenance;
mod record;
pub mod schema;
pub mod store;

pub use event::{Event, StepEvent};
pub use provenance::{Found, FoundGpu, Machine, Provenance, WorkerMachine};
pub use record::{
    EmptyCache, Forgetting, LeftOut, Measured, Oom, Profile, RankPeaks, Record, Retried, Status, Step, sample,
};
