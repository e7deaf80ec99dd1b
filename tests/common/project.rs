//! A temporary folder with a spec, and the program run in it as a user runs it.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use expctl::records::store::StudyDir;
use serde_json::Value;
use tempfile::TempDir;

/// A folder that goes when the test ends. Suites add their own methods.
pub struct Project {
    folder: TempDir,
}

impl Project {
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder }
    }

    /// A folder with `spec.yaml`.
    pub fn new(spec: &str) -> Self {
        let project = Self::empty();
        project.write("spec.yaml", spec);
        project
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file, and the folders that it is in.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        let folder = path.parent().expect("a file in the project");
        fs::create_dir_all(folder).expect("a folder for the file");
        fs::write(path, content).expect("a file is written");
    }

    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.path(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A message with paths relative to the project, so that it is the same in every folder.
    pub fn without_folder(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// expctl in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_expctl"));
        command.args(arguments);
        command
    }

    /// A program in this folder. Variables that would change a cell are not inherited.
    pub fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("EXPCTL_")) {
            command.env_remove(name);
        }
        // Nor is the width of the screen.
        command.env_remove("COLUMNS");
        // No test asks the hub.
        command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", self.path(".hub"));
        command
    }

    pub fn expctl(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.command(arguments))
    }

    /// `expctl run spec.yaml` with its results in `out`.
    pub fn run_command(&self, arguments: &[&str]) -> Command {
        self.command(&[&["run", "spec.yaml", "--results", "out"], arguments].concat())
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.run_command(arguments))
    }

    /// The results of a study of this name, where its spec says nothing.
    pub fn results_of(&self, study: &str) -> StudyDir {
        StudyDir::new(self.path("results").join(study))
    }

    /// The results of [`run`](Self::run).
    pub fn results(&self) -> StudyDir {
        StudyDir::new(self.path("out"))
    }
}

/// A command's exit code and what it printed. It displays as both, for snapshots and failed assertions.
pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("an exit code, not a signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }

    #[track_caller]
    pub fn stdout_has(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "`{text}` is missing: {self}");
        self
    }

    #[track_caller]
    pub fn stderr_has(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "`{text}` is missing: {self}");
        self
    }

    #[track_caller]
    pub fn stdout_is(&self, text: &str) -> &Self {
        assert_eq!(self.stdout, text, "{self}");
        self
    }

    #[track_caller]
    pub fn stderr_is(&self, text: &str) -> &Self {
        assert_eq!(self.stderr, text, "{self}");
        self
    }

    /// The standard output, which must be JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl Display for Output {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}\n{}", self.code, self.stdout)?;
        match self.stderr.is_empty() {
            true => Ok(()),
            false => write!(f, "--- stderr\n{}", self.stderr),
        }
    }
}
