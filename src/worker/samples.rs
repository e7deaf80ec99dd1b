//! The process that reads the samples of a cell for the run's prediction.

use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use base::guarded::guarded;
use runner::samples::{Arguments, SAID, answer};

use super::{WorkerError, environment};

/// The exit code of reading that did not come to its end.
const ENDED: i32 = 3;

/// Reads the samples that stdin asks for. What is wrong with them is said on stderr, behind `error: `.
///
/// # Errors
/// The process cannot be tied to its parent.
#[expect(clippy::exit, reason = "the limit ends whatever is being read")]
pub(crate) fn read_samples(arguments: &Arguments) -> Result<ExitCode, WorkerError> {
    if let Some(parent) = arguments.parent {
        environment::die_with(parent)?;
    }
    if let Some(limit) = arguments
        .timeout
        .and_then(|limit| Duration::try_from_secs_f64(limit).ok())
    {
        let watch = move || {
            thread::sleep(limit);
            eprintln!(
                "error: reading the samples was stopped at the limit of {}",
                humantime::format_duration(limit)
            );
            process::exit(ENDED)
        };
        thread::Builder::new().spawn(watch).map_err(WorkerError::Thread)?;
    }
    let (code, reason) = match guarded(|| answer(arguments)) {
        Ok(Ok(())) => return Ok(ExitCode::SUCCESS),
        Ok(Err(reason)) => (SAID, reason),
        Err(panic) => (ENDED, format!("reading the samples panicked: {panic}")),
    };
    eprintln!("error: {reason}");
    process::exit(code)
}
