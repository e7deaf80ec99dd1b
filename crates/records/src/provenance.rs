//! The machine and the program behind an attempt.

use std::collections::BTreeMap;

use hub::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine and the program of an attempt. What only the worker knows is absent if it never started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// What ran the cell, such as `expctl`; `None` if nothing has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Releases of what the engine is made of, by name, such as `torch`; those of expctl stand below.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub releases: BTreeMap<String, String>,
    /// The version of expctl.
    pub expctl_version: String,
    /// The sources that expctl was built from: a hash of `Cargo.lock`, `crates` and `src`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<String>,
    /// The commit that an older version was built from, which named no sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// Such as `cpu`.
    pub device: String,
    /// The kernels' instruction set, such as avx512.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction_set: Option<String>,
    /// The threads of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The cell's `env` and `allocator.env` as the child saw them.
    pub environment: BTreeMap<String, Option<String>>,
    /// SHA-256 of the token ids trained on; absent if the child did not get there.
    pub data_sha256: Option<String>,
    /// SHA-256 of the file that `adapter_config` names, as it was read with the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_config_sha256: Option<String>,
    /// SHA-256 of the adapter's weights that training went on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_adapter_sha256: Option<String>,
    /// Models and data sets of the hub, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hub: BTreeMap<String, Revision>,
}

impl Provenance {
    /// True if the two can be the origin of one cell's figures: the same build on the same processor, with the same data.
    /// The system and its memory may differ.
    pub fn is_like(&self, other: &Self) -> bool {
        let of_figures = |provenance: &Self| {
            let mut provenance = provenance.clone();
            if let Some(machine) = &mut provenance.machine {
                machine.memory_bytes = None;
                machine.os.clear();
            }
            provenance
        };
        of_figures(self) == of_figures(other)
    }

    /// Takes over what the worker found out.
    pub fn found(&mut self, found: Found) {
        self.engine = Some(found.engine);
        self.releases = found.releases;
        self.instruction_set = found.instruction_set;
        self.threads = Some(found.threads);
        self.machine = Some(found.machine);
    }
}

/// What a worker finds out about its process when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// What runs the cell.
    pub engine: String,
    /// Releases of what its engine is made of, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub releases: BTreeMap<String, String>,
    /// The kernels' instruction set, if the engine has the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction_set: Option<String>,
    /// The threads that compute.
    pub threads: usize,
    /// The machine.
    pub machine: Machine,
}

/// What a worker's machine offers to cells: what `expctl machine` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerMachine {
    /// The version of the protocol that the worker follows.
    pub protocol: u32,
    /// The machine.
    pub machine: Machine,
    /// The worker's name for what it runs.
    pub engine: String,
    /// The best instruction set that its kernels can use.
    pub instruction_set: String,
    /// The instruction set that `auto` means there.
    pub auto_instruction_set: String,
    /// The allocators that the worker's build has.
    pub allocators: Vec<String>,
    /// True if the worker's build has CUDA.
    pub cuda: bool,
    /// Releases of what its engine is made of, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub releases: BTreeMap<String, String>,
    /// The GPUs that it can use, if it looks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<FoundGpu>,
    /// Memory that the system could give; absent if the worker does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Why its engine cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_error: Option<String>,
}

impl WorkerMachine {
    /// Memory that the system could give, or has, if the worker does not say.
    pub fn free_bytes(&self) -> Option<u64> {
        self.available_bytes.or(self.machine.memory_bytes)
    }
}

/// A GPU that a worker can use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundGpu {
    /// The driver's name of it.
    pub name: String,
    /// Its memory.
    pub memory_bytes: u64,
}

/// The machine of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The model of the CPU.
    pub cpu: String,
    /// Logical cores.
    pub cores: usize,
    /// The system's memory.
    pub memory_bytes: Option<u64>,
    /// Name and release of the operating system.
    pub os: String,
}
