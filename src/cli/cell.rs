//! `expctl cell DIR`, hidden: trains one cell, in the process that `expctl run` starts for it.

use std::process::ExitCode;

use records::Status;
use runner::protocol::Arguments;

use super::FAILED;
use crate::worker;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    Ok(match worker::run(arguments)? {
        Status::Ok => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}
