//! Sources that results name, looked up in the checkout that they are committed to.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread;

use polars_core::prelude::DataFrame;
use runner::hash_of_sources;

/// The paths whose git ids make the hash, in the order that it takes them in.
const SOURCES: [&str; 3] = ["Cargo.lock", "crates", "src"];

/// The columns of a frame that may end in a hash of sources.
const COLUMNS: [&str; 2] = ["sources", "replanned_by"];

/// The hashes of sources in a frame that no commit of this checkout has. None if the folder is no checkout of expctl, or one
/// without its history.
pub(super) fn unknown(cells: &DataFrame) -> Vec<String> {
    let Some(known) = &*KNOWN else {
        return Vec::new();
    };
    let texts = COLUMNS.iter().filter_map(|name| cells.column(name).ok()?.str().ok());
    let named = texts.flat_map(|texts| texts.iter().flatten());
    let hashes: BTreeSet<&str> = named.filter_map(hash_in).collect();
    hashes
        .into_iter()
        .filter(|hash| !known.contains(*hash))
        .map(str::to_owned)
        .collect()
}

/// The hash in a value: all of it, or the last word, in brackets.
fn hash_in(text: &str) -> Option<&str> {
    Some(text.split(' ').next_back()?.trim_end_matches(')'))
}

/// The hashes of this build and of all commits before HEAD.
static KNOWN: LazyLock<Option<BTreeSet<String>>> = LazyLock::new(|| {
    let is_ours = std::fs::read_to_string("Cargo.toml")
        .is_ok_and(|text| text.contains(concat!("name = \"", env!("CARGO_PKG_NAME"), "\"")));
    if !is_ours || !Path::new(".git").exists() || git(&["rev-parse", "--is-shallow-repository"], "")? == "true" {
        return None;
    }
    let commits = git(
        &[&["log", "--full-history", "--format=%H", "--"], &SOURCES[..]].concat(),
        "",
    )?;
    // A history of one commit says nothing of those before it.
    commits.lines().nth(1)?;
    let names: String = commits
        .lines()
        .flat_map(|commit| SOURCES.map(|source| format!("{commit}:{source}\n")))
        .collect();
    let ids = git(&["cat-file", "--batch-check=%(objectname)"], &names)?;
    let ids: Vec<&str> = ids.lines().collect();
    let of_history = ids.chunks(SOURCES.len()).map(|ids| hash_of_sources(&ids.join(" ")));
    Some(of_history.chain(runner::sources().map(str::to_owned)).collect())
});

/// What a git command prints, given a text on stdin; none where it fails or there is no git.
fn git(arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("git");
    let command = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    // git answers while it reads.
    let output = thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().ok()
    })?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
