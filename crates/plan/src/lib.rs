//! Predictions of the memory that training needs, before anything runs.
//!
//! A stack writes a [`Trace`](trace::Trace) of what it will allocate and release: our trainer in a
//! [`dry_run`](train::dry_run), or [`torch`](torch), transformers with PEFT and bitsandbytes on a GPU.
//! [`Planner`] turns a trace into a prediction, [`advice`] looks for a change that makes a cell fit.

pub mod advice;
pub mod batches;
mod cache;
mod device;
mod error;
mod fallback;
mod figures;
pub mod fit;
mod headroom;
mod inputs;
mod norms;
pub mod oom;
mod planner;
mod ranges;
pub mod resolve;
mod samples;
pub mod speed;
mod torch_configuration;
pub mod variants;
mod work;

pub use error::{CellError, PlanError};
pub use fallback::fall_back;
pub use headroom::Headroom;
pub use norms::check_norms;
pub use planner::{Options, Planner};
pub use samples::ReadApart;
