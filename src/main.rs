//! expctl: declarative fine-tuning experiments, measured to the byte.

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Parser;
use expctl::cli::{Cli, INVALID_INPUT, describe};
use expctl::memory::{BackendAllocator, LedgerAllocator};

#[global_allocator]
static ALLOCATOR: LedgerAllocator<BackendAllocator> = LedgerAllocator::new(BackendAllocator);

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            // If stderr is closed, the exit code still reports the failure.
            let _ = writeln!(stderr(), "error: {}", describe(&error));
            ExitCode::from(INVALID_INPUT)
        }
    }
}
