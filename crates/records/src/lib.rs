//! What a cell leaves on disk: its prediction, a line for each step, and its record; and the folders where they lie.

pub mod prediction;
mod record;
pub mod store;

pub use record::{
    EmptyCache, Event, Forgetting, LeftOut, Machine, Measured, Oom, Profile, Provenance, Record, Retried, Status, Step,
    StepEvent, sample,
};
