//! Damage to the files of a finished study: digits changed, bytes flipped, cut, doubled, emptied and removed, another
//! cell's file, and a folder or a link in a file's place, file after file.

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
const DAMAGES: [(&str, Damage); 6] = [
    ("digit", |bytes| {
        let place = bytes.iter().rposition(u8::is_ascii_digit)?;
        Some(with_another_digit(bytes, place))
    }),
    ("doubled", |bytes| Some([bytes, bytes].concat())),
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

/// The bytes with another digit in this place.
fn with_another_digit(bytes: &[u8], place: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] = if bytes[place] == b'7' { b'1' } else { b'7' };
    bytes
}

/// The ids of the cells.
fn ids(project: &Project) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    project.cells().iter().map(name).collect()
}

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
    let cells = ids(&project);
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
                // What was removed shows nothing false.
                ("steps.jsonl" | "timeline.bin", "removed") => assert!(!is_made_again, "{what}: {run}"),
                ("record.json" | "steps.jsonl" | "timeline.bin", _) => assert!(is_made_again, "{what}: {run}"),
                // Nothing that figures rest on.
                _ => assert!(!is_made_again, "{what}: {run}"),
            }
            if !is_made_again && matches!(file, "prediction.json" | "cell.yaml" | "study.yaml") && kind != "removed" {
                assert_eq!(after.get(name), before.get(name), "{what}: {run}");
            }
        }
    }
}

/// Each command names the file that does not hold, and shows nothing of it.
#[test]
fn what_was_changed_is_named_and_not_shown() {
    let project = Project::new(SPEC);
    project.run(&[]).exits(0);
    let out = project.path("out");
    let before = files(&out);
    let [id, other]: [String; 2] = ids(&project).try_into().unwrap();
    let show = ["show", &id, "--results", "out"];
    let export = ["export", &id, "--results", "out", "--format", "csv", "--output", "-"];
    let named: [(&str, &[&str]); 6] = [
        ("record.json", &show),
        ("prediction.json", &show),
        ("cell.yaml", &show),
        ("steps.jsonl", &show),
        ("timeline.bin", &export),
        ("record.json", &export),
    ];
    for (name, command) in named {
        let path = Path::new("cells").join(&id).join(name);
        let own = &before[&path];
        let of_other = &before[&Path::new("cells").join(&other).join(name)];
        let place = own.iter().position(u8::is_ascii_digit).unwrap();
        let changed = with_another_digit(own, place);
        for (what, bytes) in [("digit", &changed), ("swapped", of_other)] {
            restore(&out, &before);
            fs::write(out.join(&path), bytes).unwrap();
            let output = project.expctl(command);
            assert_eq!(output.code, 2, "{name} {what}: {output}");
            assert!(output.stdout.is_empty(), "{name} {what}: {output}");
            assert!(output.stderr.contains(name), "{name} {what}: {output}");
            let report = project.expctl(&["report", "out"]);
            let is_in_reports = !matches!(name, "cell.yaml" | "steps.jsonl");
            assert_eq!(report.stderr.contains(name), is_in_reports, "{name} {what}: {report}");
        }
    }
}

/// A folder or a link in a file's place costs its cell, and nothing is written through a link.
#[test]
fn what_lies_in_a_files_place_is_moved_away() {
    let project = Project::new(SPEC);
    project.run(&[]).exits(0);
    let out = project.path("out");
    let before = files(&out);
    project.write("target", "mine");
    // Whether a report may replace a folder is for people to say.
    for name in before
        .keys()
        .filter(|name| !name.to_string_lossy().starts_with("report"))
    {
        for kind in ["folder", "link", "dangling link"] {
            let what = format!("{} {kind}", name.display());
            restore(&out, &before);
            let path = out.join(name);
            fs::remove_file(&path).unwrap();
            match kind {
                "folder" => fs::create_dir(&path).unwrap(),
                "link" => std::os::unix::fs::symlink(project.path("target"), &path).unwrap(),
                _ => std::os::unix::fs::symlink(project.path("nothing"), &path).unwrap(),
            }
            let run = project.run(&["--progress", "plain"]);
            assert_eq!(run.code, 0, "{what}: {run}");
            assert_eq!(project.read("target"), "mine", "{what}");
            // A result stands without its log and its adapter.
            let is_made_again = !what.contains("log.txt") && !what.contains("adapter");
            assert!(
                !is_made_again || fs::symlink_metadata(&path).unwrap().is_file(),
                "{what}"
            );
            assert!(!project.path("nothing").exists(), "{what}");
        }
    }
}
