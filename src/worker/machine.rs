//! What only the worker's process can know: its machine, its threads, its instruction set.

use std::collections::BTreeMap;
use std::fs;
use std::thread::available_parallelism;

use cell::Cell;
use kernels::{Dispatch as _, InstructionSet};
use memory::probes;
use options::{AllocatorBackend, Engine};
use records::{Found, Machine, WorkerMachine, schema};

/// What this machine and this build offer to cells.
pub(crate) fn offered() -> WorkerMachine {
    let allocators = AllocatorBackend::ALL
        .into_iter()
        .filter(|backend| backend.is_available());
    WorkerMachine {
        protocol: schema::VERSION,
        machine: machine(),
        engine: Engine::Candle.name_in_records().to_owned(),
        instruction_set: InstructionSet::best().name().to_owned(),
        auto_instruction_set: InstructionSet::fastest().name().to_owned(),
        allocators: allocators.map(|backend| backend.name().to_owned()).collect(),
        cuda: cfg!(feature = "cuda"),
        releases: BTreeMap::new(),
        gpus: Vec::new(),
        available_bytes: None,
        import_error: None,
    }
}

/// What the cell gets here.
pub(super) fn found(cell: &Cell) -> Found {
    Found {
        engine: Engine::Candle.name_in_records().to_owned(),
        releases: BTreeMap::new(),
        instruction_set: Some(instruction_set(cell).name().to_owned()),
        threads: threads(cell),
        machine: machine(),
    }
}

/// Threads that compute: the cell's own number, or one for each core.
pub(super) fn threads(cell: &Cell) -> usize {
    cell.threads.unwrap_or_else(cores)
}

/// The instruction set of the kernels: the cell's own, or the fastest of this CPU.
pub(super) fn instruction_set(cell: &Cell) -> InstructionSet {
    kernels::resolve(cell.instruction_set)
}

/// The cores that this process may use.
fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn machine() -> Machine {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Machine {
        cpu: cpu_model().unwrap_or_else(|| text(system.machine())),
        cores: cores(),
        memory_bytes: probes::usable_bytes(),
        os: format!(
            "{} {} {}",
            text(system.sysname()),
            text(system.release()),
            text(system.machine())
        ),
    }
}

/// The processor's name, which Linux reports on x86.
fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}
