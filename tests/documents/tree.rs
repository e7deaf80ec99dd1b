//! A copy of what a clone has, and of a user's own files that documents name.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use crate::common::project::{Output, Project};
use crate::markdown::Document;
use crate::root;

/// What commands read.
const COPIED: [&str; 6] = [
    "README.md",
    "benches",
    "crates/data/embedded",
    "docs",
    "experiments",
    "reports",
];

/// A user's files, by the names that documents give them.
const OWN_FILES: [(&str, &str); 5] = [
    ("axolotl.yml", include_str!("../fixtures/import/axolotl_qlora.yml")),
    ("torchtune.yaml", include_str!("../fixtures/import/torchtune_lora.yaml")),
    ("sweep.yaml", "lora_r: [8, 64]\nmicro_batch_size: [1, 2]\n"),
    (
        "my.yaml",
        "name: my\ndefaults: { stack: torch, gpu: rtx-3060-12gb, model: qwen2.5-1.5b, dtype: bfloat16, max_seq_length: 512 }\n",
    ),
    (
        "typo.yaml",
        "name: typo\ndefaults:\n  rank: 4\n  gradient_chekpointing: full\n",
    ),
];

/// A user's data, and the texts of `examples/crate_texts.rs`, which reads the sources of all crates.
const TEXTS: [&str; 5] = [
    "texts.jsonl",
    "scratch/texts/documentation.jsonl",
    "scratch/texts/documentation_held_out.jsonl",
    "scratch/texts/guides.jsonl",
    "scratch/texts/guides_held_out.jsonl",
];

/// The folder in which a document's commands are run.
pub struct Tree(Project);

impl Tree {
    pub fn copy() -> Self {
        let project = Project::empty();
        for place in COPIED {
            copy(&root().join(place), &project.path(place));
        }
        for (name, text) in OWN_FILES {
            project.write(name, text);
        }
        let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        let sample = read("crates/data/embedded/sample.txt");
        let lines = sample.lines().filter(|line| !line.is_empty());
        let texts: String = lines
            .map(|line| format!("{}\n", serde_json::json!({ "text": line })))
            .collect();
        for name in TEXTS {
            project.write(name, &texts);
        }
        project.write(
            "models/my-model/config.json",
            read("crates/arch/src/presets/smollm2-135m.json"),
        );
        project.write(
            "models/my-model/tokenizer.json",
            read("crates/data/embedded/tokenizer.json"),
        );
        Self(project)
    }

    pub fn has(&self, path: &str) -> bool {
        self.0.path(path).exists()
    }

    /// Runs a line of a shell in which `expctl` is the program under test.
    pub fn run(&self, line: &str) -> Output {
        let folder = Path::new(env!("CARGO_BIN_EXE_expctl")).parent().map(PathBuf::from);
        let others = env::var_os("PATH").unwrap_or_default();
        let folders = env::join_paths(folder.into_iter().chain(env::split_paths(&others))).unwrap();
        let mut shell = self.0.program("bash");
        let shell = shell
            .args(["-uo", "pipefail", "-c", line])
            .env("PATH", folders)
            .env("HOME", self.0.path(""));
        // GitHub sets it for the steps of a job.
        Output::of(shell.env("GITHUB_STEP_SUMMARY", "summary.md").stdin(Stdio::null()))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

impl Document {
    /// What is wrong with its commands, which are run in their order in one copy. Equal commands run once.
    pub fn faults_in(&self, tree: &Tree) -> Vec<String> {
        let mut faults = self.strays.clone();
        let mut done = HashSet::new();
        for command in &self.commands {
            if !done.insert((&command.text, command.exits, &command.output)) {
                continue;
            }
            let start = Instant::now();
            let fault = command.fault(tree);
            let place = format!("{}:{}: {}", self.name, command.line, command.text);
            eprintln!("{:6.2} s  {place}", start.elapsed().as_secs_f64());
            faults.extend(fault.map(|fault| format!("{place}\n{fault}")));
        }
        faults
    }
}
