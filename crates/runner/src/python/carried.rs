//! The worker's files, which this program carries.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// The files by their paths below the worker's folder.
macro_rules! files {
    ($($path:literal,)+) => {
        const FILES: &[(&str, &str)] = &[$(($path, include_str!(concat!("../../python/", $path))),)+];
    };
}

files! {
    "__main__.py",
    "expctl_worker/__init__.py",
    "expctl_worker/adapters.py",
    "expctl_worker/between.py",
    "expctl_worker/command.py",
    "expctl_worker/fsdp.py",
    "expctl_worker/inputs.py",
    "expctl_worker/loop.py",
    "expctl_worker/machine.py",
    "expctl_worker/memory.py",
    "expctl_worker/model.py",
    "expctl_worker/oom.py",
    "expctl_worker/optimizer.py",
    "expctl_worker/protocol.py",
    "expctl_worker/ranks.py",
    "expctl_worker/record.py",
    "expctl_worker/train.py",
}

/// The files in a folder of their own, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct Carried(TempDir);

impl Carried {
    /// Writes the files.
    ///
    /// # Errors
    /// The system's, if it has no room for a few kilobytes.
    pub(super) fn write() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("expctl-worker-").tempdir()?;
        for (path, text) in FILES {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(path, text)?;
        }
        Ok(Self(folder))
    }

    /// The folder, which Python runs.
    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_file_is_carried_and_short() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/expctl_worker");
        let found: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "py"))
            .collect();
        assert_eq!(found.len() + 1, FILES.len());
        for (path, text) in FILES {
            assert!(text.lines().count() < 150, "{path}");
        }
        let carried = Carried::write().unwrap();
        assert!(carried.folder().join("expctl_worker/loop.py").is_file());
    }
}
