//! The Python that runs the worker.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cell::{Attention, Cell, Loss};
use spec::Study;
use torch::TODAY_SINCE;

/// The word for an interpreter that uv makes.
const UV: &str = "uv";
/// Packages that every cell needs with uv, beside those whose releases cells name.
const ALWAYS: [&str; 2] = ["accelerate", "safetensors"];

/// A Python, and who named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interpreter {
    program: Program,
    named_by: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Program {
    /// The interpreter's file, or its name in PATH.
    Path(PathBuf),
    /// `uv run` with the releases that a cell names.
    Uv,
}

impl Interpreter {
    /// The first that is named: by the option, `EXPCTL_PYTHON`, the spec, an active virtual environment, one beside the
    /// spec, and `python3`.
    pub(super) fn choose(given: Option<&str>, study: &Study) -> Self {
        let variable = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
        let beside = study.directory.join(".venv/bin/python");
        let candidates = [
            (given.map(str::to_owned), "--python"),
            (variable("EXPCTL_PYTHON"), "EXPCTL_PYTHON"),
            (
                study.python.as_deref().map(|path| of_spec(path, &study.directory)),
                "the spec",
            ),
            (
                variable("VIRTUAL_ENV").map(|folder| format!("{folder}/bin/python")),
                "VIRTUAL_ENV",
            ),
            (
                beside.exists().then(|| beside.display().to_string()),
                ".venv beside the spec",
            ),
        ];
        let mut named = candidates.into_iter();
        let first = named.find_map(|(path, by)| Some((path?, by)));
        let (path, named_by) = first.unwrap_or_else(|| ("python3".to_owned(), "PATH"));
        let program = match path.as_str() {
            UV => Program::Uv,
            path => Program::Path(path.into()),
        };
        Self { program, named_by }
    }

    /// The releases that a cell asks uv for; none of an interpreter that is there.
    pub(super) fn releases(&self, cell: &Cell) -> Vec<String> {
        if !self.pins() {
            return Vec::new();
        }
        let named = |package: &str| {
            let own = cell.value(&format!("torch.{package}_version"));
            own.as_str()
                .map(|release| release.trim_start_matches("nearest ").to_owned())
        };
        let is_used = |package: &str| match package {
            "peft" => cell.method().is_some(),
            "bitsandbytes" => cell.dtype.is_quantised() || cell.optim.is_from_bitsandbytes(),
            "deepspeed" => cell.is_deepspeed(),
            _ => true,
        };
        let packages = TODAY_SINCE.into_iter().filter(|(package, _)| is_used(package));
        let pinned = packages.map(|(package, today)| {
            let release = named(package).unwrap_or_else(|| today.to_owned());
            format!("{package}=={release}")
        });
        let kernels = [
            (cell.loss() == Loss::Liger, "liger-kernel"),
            (cell.attn_implementation == Attention::FlashAttention2, "flash-attn"),
        ];
        let kernels = kernels
            .into_iter()
            .filter_map(|(is_used, package)| is_used.then_some(package));
        let others = ALWAYS.into_iter().chain(kernels);
        pinned.chain(others.map(str::to_owned)).collect()
    }

    /// True if it has the releases that cells name.
    pub(super) fn pins(&self) -> bool {
        self.program == Program::Uv
    }

    /// The words that start the worker in `folder` for a cell.
    pub(super) fn line(&self, cell: &Cell, folder: &Path) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        match &self.program {
            Program::Path(path) => line.push(path.into()),
            Program::Uv => {
                line.extend(["uv", "run", "--quiet", "--no-project"].map(OsString::from));
                for release in self.releases(cell) {
                    line.extend(["--with".into(), release.into()]);
                }
                line.push("python".into());
            }
        }
        line.push(folder.into());
        line
    }

    /// What it may fetch for these releases, for people; `None` if it fetches nothing.
    pub(super) fn fetched(&self, releases: &[String]) -> Option<String> {
        self.pins().then(|| {
            format!(
                "uv fetches what it has not of {}; torch with CUDA's libraries takes about 3 GB to fetch, and 7 GB on disk",
                releases.join(", ")
            )
        })
    }

    /// How a missing package is installed.
    pub(super) fn install(&self, packages: &str) -> String {
        match &self.program {
            Program::Path(path) => format!("{} -m pip install {packages}", path.display()),
            Program::Uv => format!("uv pip install {packages}"),
        }
    }

    /// Why it does not answer.
    pub(super) fn explain(&self, error: &io::Error) -> io::Error {
        let help = match (error.kind(), &self.program) {
            (io::ErrorKind::NotFound, Program::Uv) => {
                "there is no `uv` in PATH; https://docs.astral.sh/uv says how to install it"
            }
            (io::ErrorKind::NotFound, Program::Path(_)) => {
                "there is none; name one with --python, EXPCTL_PYTHON or the spec's `python`"
            }
            _ => return io::Error::other(format!("{self}: {error}")),
        };
        io::Error::other(format!("{self}: {help}"))
    }
}

/// A spec's interpreter: a word, or a path relative to the spec.
fn of_spec(path: &str, folder: &Path) -> String {
    match path.contains('/') {
        true => folder.join(path).display().to_string(),
        false => path.to_owned(),
    }
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Program::Path(path) => write!(f, "Python `{}` (by {})", path.display(), self.named_by),
            Program::Uv => write!(f, "Python by `uv run` (by {})", self.named_by),
        }
    }
}
