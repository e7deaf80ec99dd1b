//! The worker: the main program of the process that trains one cell. `runner::protocol` defines its command line,
//! environment, files and events.

mod environment;
mod error;
mod inputs;
mod machine;
mod samples;
mod train;

pub use error::WorkerError;
pub(crate) use inputs::write_inputs;
pub(crate) use machine::offered;
pub(crate) use samples::read_samples;
pub(crate) use train::run;
