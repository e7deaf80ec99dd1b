//! The worker's process: it matches its cell, or it does not train.

use cell::Cell;
use kernels::Dispatch as _;
use kernels::InstructionSet;
use runner::protocol::variables;
use rustix::process::{Pid, getppid};

use super::WorkerError;
use super::machine::{instruction_set, threads};

/// Stack bytes of a thread: dropping a long chain of tensors recurses.
const STACK: usize = 64 << 20;

/// Lets the kernel kill this process when its parent ends, and checks that the parent is still there.
pub(super) fn die_with(parent: i32) -> Result<(), WorkerError> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| WorkerError::Parent(error.into()))?;
    if getppid() == Pid::from_raw(parent) {
        Ok(())
    } else {
        Err(WorkerError::Orphan)
    }
}

/// Checks variables and allocator, and chooses the kernels' instruction set.
pub(super) fn prepare(cell: &Cell) -> Result<(), WorkerError> {
    for (name, value) in variables(cell) {
        let found = std::env::var(name).ok();
        if found != value {
            return Err(WorkerError::Variable { name, value, found });
        }
    }
    let (asked, current) = (cell.backend(), memory::current_backend());
    if asked != current {
        return Err(WorkerError::Backend {
            asked: asked.name(),
            current: current.name(),
        });
    }
    let level = instruction_set(cell);
    if !level.choose() {
        return Err(WorkerError::InstructionSet {
            asked: level.name(),
            best: InstructionSet::best().name(),
        });
    }
    Ok(())
}

/// Starts the threads that compute.
pub(super) fn start_threads(cell: &Cell) -> Result<(), WorkerError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads(cell))
        .stack_size(STACK)
        .build_global()?;
    Ok(())
}
