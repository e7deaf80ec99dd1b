//! Damage to the files of a finished study: bytes flipped, cut, emptied and removed, file after file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::project::{Output, Project};

const SPEC: &str = "
name: damaged
defaults: { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 1 }
record: { timeline: true, timeline_steps: 1 }
sweep: { grid: { rank: [2, 4] } }
";

/// Takes a file's bytes and gives those that are left, or none for a removed file.
type Damage = fn(&[u8]) -> Option<Vec<u8>>;

/// The kinds of damage.
const DAMAGES: [(&str, Damage); 4] = [
    ("flipped", |bytes| {
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        for byte in bytes.iter_mut().skip(middle).take(3) {
            *byte ^= 0x15;
        }
        Some(bytes)
    }),
    ("cut", |bytes| Some(bytes[..bytes.len() / 3].to_vec())),
    ("emptied", |_| Some(Vec::new())),
    ("removed", |_| None),
];

/// Every file below a folder with its content, by its path in the folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_path_buf();
                    found.insert(name, fs::read(path).unwrap());
                }
            }
        }
    }
    found
}

/// Puts the folder back to what it was.
fn restore(folder: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) {
    fs::remove_dir_all(folder).unwrap();
    for (name, content) in before {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// The cell that a file belongs to, if it belongs to one.
fn cell_of(name: &Path) -> Option<String> {
    let mut parts = name
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    (parts.next()? == "cells").then(|| parts.next())?
}

fn record(files: &BTreeMap<PathBuf, Vec<u8>>, cell: &str) -> Option<Vec<u8>> {
    files.get(&Path::new("cells").join(cell).join("record.json")).cloned()
}

#[track_caller]
fn is_orderly(output: &Output, what: &str) {
    assert!(matches!(output.code, 0..=2), "{what}: {output}");
    for word in ["panicked", "RUST_BACKTRACE", "internal error"] {
        assert!(!output.stderr.contains(word), "{what}: {output}");
    }
    assert!(output.code == 0 || !output.stderr.is_empty(), "{what}: {output}");
}

#[test]
fn what_is_damaged_is_made_again_and_nothing_else() {
    let project = Project::new(SPEC);
    project.run(&[]).exits(0);
    let out = project.path("out");
    let before = files(&out);
    let cells: Vec<String> = project
        .cells()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    for name in before.keys() {
        for (kind, damage) in DAMAGES {
            let what = format!("{} {kind}", name.display());
            restore(&out, &before);
            match damage(&before[name]) {
                Some(bytes) => fs::write(out.join(name), bytes).unwrap(),
                None => fs::remove_file(out.join(name)).unwrap(),
            }
            for command in [&["list", "out"][..], &["compare", "out", "out"], &["report", "out"]] {
                is_orderly(&project.expctl(command), &format!("{what}: {command:?}"));
            }
            let run = project.run(&["--progress", "plain"]);
            is_orderly(&run, &what);
            let after = files(&out);
            // The other cells keep their records.
            let touched = cell_of(name);
            for cell in cells.iter().filter(|cell| touched.as_ref() != Some(cell)) {
                assert_eq!(record(&after, cell), record(&before, cell), "{what}: {run}");
            }
            assert_eq!(run.code, 0, "{what}: {run}");
            let file = name.file_name().unwrap().to_str().unwrap();
            let is_made_again = touched
                .as_deref()
                .is_some_and(|cell| record(&after, cell) != record(&before, cell));
            match (file, kind) {
                // Without its record a cell has no result; with another's timeline it has no figures of its own.
                ("record.json", "cut" | "emptied" | "removed") | ("timeline.bin", "cut" | "emptied") => {
                    assert!(is_made_again, "{what}: {run}");
                }
                ("record.json" | "timeline.bin", _) => {}
                // Nothing that figures rest on.
                _ => assert!(!is_made_again, "{what}: {run}"),
            }
        }
    }
}
