//! The build behind an attempt.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cell::{Cell, Data};
use hub::{Roots, Snapshot};
use records::Provenance;
use records::store::sha256;

/// The version of this build.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

static SOURCES: OnceLock<String> = OnceLock::new();

/// Digits of the hash of sources.
const DIGITS: usize = 16;

/// Names the sources of this build, once, by their [ids](hash_of_sources). The program holds them and not this library, so
/// that a change elsewhere does not build the library again.
pub fn built_from(ids: &str) {
    SOURCES.get_or_init(|| hash_of_sources(ids));
}

/// The hash of this build's sources; `None` outside a git checkout.
pub fn sources() -> Option<&'static str> {
    SOURCES.get().map(String::as_str)
}

/// The hash of sources, from git's ids of `Cargo.lock`, `crates` and `src`, with spaces between them. It depends on what the
/// files hold and not on commits, so a build from files that are committed later has the commit's hash.
pub fn hash_of_sources(ids: &str) -> String {
    let mut hash = sha256(&[ids.as_bytes()]);
    hash.truncate(DIGITS);
    hash
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
        sources: sources().map(Into::into),
        git_commit: None,
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
