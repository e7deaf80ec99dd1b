//! The build behind an attempt.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cell::{Cell, Data};
use hub::{Roots, Snapshot};
use records::Provenance;

/// The version of this build.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

static COMMIT: OnceLock<&str> = OnceLock::new();

/// Names the commit of this build, once, with `-dirty` if files had changed. The program holds it and not this library,
/// so that a commit does not build the library again.
pub fn built_from(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

/// The commit of this build; `None` outside a git checkout.
pub fn git_commit() -> Option<&'static str> {
    COMMIT.get().copied()
}

/// The provenance of an attempt at `cell`, as the run knows it: what only the worker can know is left open.
/// `adapter_config_sha256` is that of the file that its adapter's keys came from; `environment` gives a variable's
/// value in the worker.
pub fn provenance(
    cell: &Cell,
    roots: &Roots,
    adapter_config_sha256: Option<String>,
    environment: impl Fn(&str) -> Option<String>,
) -> Provenance {
    Provenance {
        expctl_version: VERSION.into(),
        git_commit: git_commit().map(Into::into),
        engine: None,
        releases: BTreeMap::new(),
        device: cell.device_name().to_owned(),
        instruction_set: None,
        threads: None,
        machine: None,
        environment: cell
            .environment()
            .into_keys()
            .map(|name| (name.to_owned(), environment(name)))
            .collect(),
        data_sha256: None,
        adapter_config_sha256,
        init_adapter_sha256: None,
        hub: snapshots(cell, roots)
            .into_iter()
            .map(|(name, found)| (name, found.revision))
            .collect(),
    }
}

/// What a cell uses of the hub.
pub(super) fn snapshots(cell: &Cell, roots: &Roots) -> BTreeMap<String, Snapshot> {
    let parts = match &cell.data {
        Data::File(file) => file.parts(),
        Data::Synthetic(_) | Data::Sample => Vec::new(),
    };
    let paths: Vec<&str> = parts.iter().flat_map(|part| part.file.path.iter()).collect();
    roots.snapshots_of(&cell.model, &paths)
}
