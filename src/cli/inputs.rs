//! `expctl inputs DIR`, hidden: writes what a worker in Python trains on.

use std::process::ExitCode;

use runner::protocol::InputsArguments;

use super::print;
use crate::worker;

pub(super) fn run(arguments: &InputsArguments) -> anyhow::Result<ExitCode> {
    print(&format!("{}\n", worker::write_inputs(arguments)?))?;
    Ok(ExitCode::SUCCESS)
}
