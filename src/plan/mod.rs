//! Predictions of the memory that training needs, before anything runs.
//!
//! A stack writes a [`Trace`](crate::trace::Trace) of what it will allocate and release: our trainer in a
//! [`dry_run`](crate::train::dry_run), or the room [`torch`](crate::torch), transformers with PEFT and bitsandbytes on a GPU. [`Planner`] turns a trace into a prediction,
//! [`advice`] looks for a change that makes a cell fit.

pub mod advice;
pub mod batches;
mod cache;
mod device;
mod error;
mod fallback;
mod figures;
pub mod fit;
mod inputs;
mod planner;
mod ranges;
pub mod resolve;
mod torch;

pub use error::{CellError, PlanError};
pub use fallback::fall_back;
pub use planner::{Options, Planner};
