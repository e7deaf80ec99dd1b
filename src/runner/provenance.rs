//! Where and by what an attempt is made.

use std::fs;

use crate::kernels::InstructionSet;
use crate::memory::probes;
use crate::results::record::{Machine, Provenance};
use crate::spec::cell::Cell;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that this build was made from, `-dirty` where files had changed since; none outside a git checkout.
pub const GIT_COMMIT: Option<&str> = option_env!("BUILT_FROM_COMMIT");

/// What can be said of an attempt at `cell` before anything is trained. `environment` looks a variable up as the cell's
/// process sees it.
pub fn provenance(cell: &Cell, environment: impl Fn(&str) -> Option<String>) -> Provenance {
    Provenance {
        expctl_version: VERSION.into(),
        git_commit: GIT_COMMIT.map(Into::into),
        device: cell.device.clone(),
        instruction_set: instruction_set(cell).name().into(),
        threads: threads(cell),
        machine: machine(),
        environment: cell
            .environment()
            .into_keys()
            .map(|name| (name.to_owned(), environment(name)))
            .collect(),
        data_sha256: None,
    }
}

/// Threads that the cell is trained with.
pub fn threads(cell: &Cell) -> usize {
    cell.threads.unwrap_or_else(cores)
}

/// The level of the kernels that the cell is trained with: the one that it names, or the best of this CPU.
pub fn instruction_set(cell: &Cell) -> InstructionSet {
    cell.instruction_set.level().unwrap_or_else(InstructionSet::best)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn machine() -> Machine {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Machine {
        cpu: cpu_model().unwrap_or_else(|| text(system.machine())),
        cores: cores(),
        memory_bytes: probes::system_total_bytes(),
        os: format!(
            "{} {} {}",
            text(system.sysname()),
            text(system.release()),
            text(system.machine())
        ),
    }
}

/// The processor's name where Linux tells one; it does on x86.
fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}
