//! Tells the binary its target and, in a git checkout, the sources that it is built from.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources, in the order in which git lists them.
const SOURCES: [&str; 3] = ["Cargo.lock", "crates", "src"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=BUILT_FOR_TARGET={}",
        std::env::var("TARGET").unwrap_or_default()
    );
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // A package that was unpacked inside somebody else's repository has no sources of its own there.
    if !root.join(".git").exists() {
        return;
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    if let Some(ids) = ids(&root) {
        // Not EXPCTL_...: cargo passes the variable on to what it runs, where that would be a key of the spec.
        println!("cargo::rustc-env=BUILT_FROM_SOURCES={ids}");
    }
}

/// Git's ids of the sources as they lie in the checkout, committed or not.
fn ids(root: &Path) -> Option<String> {
    let own = PathBuf::from(std::env::var_os("OUT_DIR")?);
    let objects = own.join("sources.objects");
    fs::create_dir_all(&objects).ok()?;
    let known = root.join(git(&[], &["rev-parse", "--git-path", "objects"])?);
    // An index and objects of our own leave those of the checkout as they are.
    let index = own.join("sources.index");
    let apart = [
        ("GIT_INDEX_FILE", index.as_os_str()),
        ("GIT_OBJECT_DIRECTORY", objects.as_os_str()),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", known.as_os_str()),
    ];
    git(&apart, &[&["add", "--all", "--"], &SOURCES[..]].concat())?;
    let tree = git(&apart, &["write-tree"])?;
    let listed = git(&apart, &["ls-tree", &tree])?;
    let id = |line: &str| Some(line.split_whitespace().nth(2)?.to_owned());
    let ids: Vec<String> = listed.lines().filter_map(id).collect();
    (ids.len() == SOURCES.len()).then(|| ids.join(" "))
}

/// What a git command prints; none where it fails or there is no git.
fn git(variables: &[(&str, &OsStr)], arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).envs(variables.iter().copied()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
