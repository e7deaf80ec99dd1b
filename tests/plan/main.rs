//! Predictions: our trainer's against its ledger, those of PyTorch's stack against PyTorch, and what a user sees of them.
#![cfg(target_os = "linux")]

mod command;
mod sample;
mod torch;
mod trainer;
mod training_loop;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// A spec in a folder of its own.
struct Place {
    folder: TempDir,
}

/// What a command said.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Place {
    fn new(spec: &str) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::write(place.path("spec.yaml"), spec).unwrap();
        place
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    /// A message, in which files are named as the spec names them.
    fn without_folder(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }

    fn expctl(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expctl"));
        let output = command
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Said {
            code: output.status.code().unwrap(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// `expctl plan spec.yaml` with these arguments.
    fn plan(&self, arguments: &[&str]) -> Said {
        self.expctl(&[&["plan", "spec.yaml"], arguments].concat())
    }

    /// The same as JSON, an object a cell.
    fn planned(&self, arguments: &[&str]) -> Vec<Value> {
        let said = self.plan(&[arguments, &["--format", "json"]].concat());
        assert!(said.stderr.is_empty(), "{}", said.stderr);
        serde_json::from_str(&said.stdout).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Said {
        self.expctl(&[&["run", "spec.yaml", "--results", "out"], arguments].concat())
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {}\n{}", self.code, self.stdout)?;
        match self.stderr.is_empty() {
            true => Ok(()),
            false => write!(f, "--- stderr\n{}", self.stderr),
        }
    }
}
