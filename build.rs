//! Tells the binary its target, and the commit that it was built from if it was built from a git checkout.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=BUILT_FOR_TARGET={}",
        std::env::var("TARGET").unwrap_or_default()
    );
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    // A package that was unpacked inside somebody else's repository has no commit of its own.
    if !Path::new(&root).join(".git").exists() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "HEAD"]) else {
        return;
    };
    // HEAD moves when its file does, when the branch's file that it names does, or when that is packed.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let sources = ["src", "crates", "build.rs", "Cargo.toml", "Cargo.lock"];
    for source in sources.into_iter().filter(|source| Path::new(source).exists()) {
        println!("cargo::rerun-if-changed={source}");
    }
    let mut status = vec![
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=normal",
        "--",
    ];
    status.extend(sources);
    let dirty = if git(&status).is_some_and(|changes| !changes.is_empty()) {
        "-dirty"
    } else {
        ""
    };
    // Not EXPCTL_...: cargo passes the variable on to what it runs, where that would be a key of the spec.
    println!("cargo::rustc-env=BUILT_FROM_COMMIT={commit}{dirty}");
}

/// What a git command prints; none where it fails or there is no git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
