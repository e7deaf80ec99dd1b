//! Puts the shipped studies into the binary, and the commit that it was built from, if that is known.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("examples.rs"), examples(&root.join("experiments"))?)?;
    // A package that was unpacked inside somebody else's repository has no commit of its own.
    if root.join(".git").exists() {
        commit();
    }
    Ok(())
}

/// An array of the files in `folder`, each its path in there and its text, in the order of the paths.
fn examples(folder: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut array = String::from("[\n");
    for file in files {
        let path = file.strip_prefix(folder).unwrap_or(&file);
        let _ = writeln!(array, "({path:?}, include_str!({file:?})),");
    }
    Ok(array + "]")
}

/// Adds the files in `folder` and in the folders below it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(named)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Names the commit in a variable of the build, with `-dirty` if what the binary is made from differs.
fn commit() {
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
    let sources = ["src", "templates", "data", "build.rs", "Cargo.toml", "Cargo.lock"];
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
