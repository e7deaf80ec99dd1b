//! The files that the paths of a spec lead to.

use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hub::{Roots, SplitError, is_glob};
use options::{DataFile, DataFormat};

use super::DataError;

/// A file of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) format: DataFormat,
}

/// The files of samples, in the order in which they are read: those of a folder or a glob by their names.
///
/// # Errors
/// If a folder has no data, nothing matches a glob, or a name does not say what the file is.
pub(super) fn files(file: &DataFile, roots: &Roots) -> Result<Vec<PathBuf>, DataError> {
    Ok(sources(file, roots)?.into_iter().map(|source| source.path).collect())
}

/// All files that the samples of a cell depend on and that there are: those of each part, and the chat template.
pub fn all_files(file: &DataFile, roots: &Roots) -> Vec<PathBuf> {
    let parts = file.parts().into_iter();
    let mut all: Vec<_> = parts
        .flat_map(|part| files(&part.file, roots).unwrap_or_default())
        .collect();
    let template = file.chat_template.as_ref().map(|template| roots.path(template));
    all.extend(template.filter(|path| file.named_template().is_none() || path.is_file()));
    all
}

/// [`files`] with their formats.
pub(super) fn sources(file: &DataFile, roots: &Roots) -> Result<Vec<Source>, DataError> {
    let mut sources = Vec::new();
    for path in file.path.iter() {
        for path in paths(path, file, roots)? {
            let format = file.format_of(&path.display().to_string());
            let format = format.ok_or_else(|| DataError::Format { path: path.clone() })?;
            sources.push(Source { path, format });
        }
    }
    Ok(sources)
}

/// The files that one path leads to.
fn paths(path: &str, file: &DataFile, roots: &Roots) -> Result<Vec<PathBuf>, DataError> {
    let split = file.split.as_deref();
    if roots.data_set(path).is_some() {
        let files = roots.data_files(path, split);
        return files.map_err(|error| DataError::Split {
            path: path.into(),
            error,
        });
    }
    let local = roots.path(path);
    if fs::metadata(&local).is_ok_and(|metadata| metadata.is_dir()) {
        return in_folder(&local, file);
    }
    match split {
        Some(split) if local.exists() || is_glob(path) => Err(DataError::SplitOfFile {
            path: local,
            split: split.into(),
        }),
        _ if is_glob(path) && !local.exists() => matching(path, roots.base_dir()),
        _ => Ok(vec![local]),
    }
}

/// The data in a folder, by name: all files whose extension names a format, but for hidden ones and those about the
/// data. If it has none, those of the folders in it, as Python's `datasets` reads them. If names say a split, those of the one that is asked for.
fn in_folder(folder: &Path, file: &DataFile) -> Result<Vec<PathBuf>, DataError> {
    let read_error = |source| DataError::Read {
        path: folder.into(),
        source,
    };
    let found = |depth| -> Result<_, DataError> {
        let mut names = Vec::new();
        names_in(folder, "", depth, &mut names).map_err(read_error)?;
        names.retain(|name| file.format.is_none() || file.format == DataFormat::of_path(name));
        Ok(hub::files_of_folder(&names, file.split.as_deref()))
    };
    let names = match found(0)? {
        Err(SplitError::NoData) => found(DEEPEST)?,
        names => names,
    };
    let names = names.map_err(|error| DataError::Split {
        path: folder.display().to_string(),
        error,
    })?;
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Folders below a folder that are looked into, if it has no data itself, and names that are taken of them.
const DEEPEST: usize = 8;
const MOST_NAMES: usize = 100_000;

/// The names of the files in a folder and in those below it, with theirs before them. Hidden folders are left out, and
/// those that a link leads to.
fn names_in(folder: &Path, before: &str, depth: usize, names: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let whole = format!("{before}{name}");
        if entry.path().is_file() {
            names.push(whole);
        } else if depth > 0 && entry.file_type()?.is_dir() && !name.starts_with(['.', '_']) {
            names_in(&entry.path(), &format!("{whole}/"), depth - 1, names)?;
        }
        if names.len() > MOST_NAMES {
            return Err(std::io::Error::other(format!("it has more than {MOST_NAMES} files")));
        }
    }
    Ok(())
}

/// The files that match a pattern, by name. The name of the folder that it starts at is no pattern.
fn matching(pattern: &str, base: &Path) -> Result<Vec<PathBuf>, DataError> {
    let pattern = &PathBuf::from(glob::Pattern::escape(&base.display().to_string())).join(pattern);
    let found = glob::glob(&pattern.display().to_string()).map_err(|error| DataError::Pattern {
        pattern: pattern.into(),
        reason: error.to_string(),
    })?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|error| DataError::Read {
            path: error.path().into(),
            source: error.into(),
        })?;
        if path.is_file() {
            files.push(path);
        }
    }
    match files.is_empty() {
        true => Err(DataError::NoMatch {
            pattern: pattern.into(),
        }),
        false => Ok(files),
    }
}

/// Checks that `path` is a regular file with content: reading a pipe or a device might never end.
pub(super) fn check(path: &Path) -> Result<(), DataError> {
    let read = |source| DataError::Read {
        path: path.into(),
        source,
    };
    let metadata = fs::metadata(path).map_err(read)?;
    if !metadata.is_file() {
        return Err(DataError::NotAFile { path: path.into() });
    }
    if metadata.len() == 0 {
        return Err(DataError::EmptyFile { path: path.into() });
    }
    File::open(path).map_err(read)?;
    Ok(())
}

/// What changes if a file is written or replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Result<Self, DataError> {
        let metadata = fs::metadata(path).map_err(|source| DataError::Read {
            path: path.into(),
            source,
        })?;
        Ok(Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            inode: inode(&metadata),
        })
    }

    /// Checks that the file is still the same.
    pub(super) fn check(&self, path: &Path) -> Result<(), DataError> {
        match Self::of(path) {
            Ok(now) if now == *self => Ok(()),
            _ => Err(DataError::Changed { path: path.into() }),
        }
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use options::Paths;

    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        folder
    }

    fn found(folder: &Path, file: &DataFile) -> Result<Vec<String>, String> {
        let start = format!("{}/", folder.display());
        let name = |path: PathBuf| path.display().to_string().replace(&start, "");
        let found = files(file, &folder.into());
        found
            .map(|files| files.into_iter().map(name).collect())
            .map_err(|error| error.to_string().replace(&start, ""))
    }

    #[test]
    fn a_path_is_a_file_a_folder_a_glob_or_a_list() {
        let folder = folder(&[
            "b.jsonl",
            "a.csv",
            "README.md",
            ".hidden.txt",
            "notes.docx",
            "deep/c.txt",
            "[odd].txt",
        ]);
        let found = |paths: &[&str]| {
            let path = Paths(paths.iter().map(|path| (*path).to_owned()).collect());
            found(
                folder.path(),
                &DataFile {
                    path,
                    ..DataFile::new("")
                },
            )
        };
        assert_eq!(found(&["b.jsonl"]).unwrap(), ["b.jsonl"]);
        assert_eq!(found(&["."]).unwrap(), ["./[odd].txt", "./a.csv", "./b.jsonl"]);
        assert_eq!(found(&["*.[cj]s*"]).unwrap(), ["a.csv", "b.jsonl"]);
        assert_eq!(found(&["**/*.txt"]).unwrap().len(), 3);
        assert_eq!(found(&["[odd].txt"]).unwrap(), ["[odd].txt"], "a file of that name");
        assert_eq!(found(&["deep", "a.csv"]).unwrap(), ["deep/c.txt", "a.csv"]);
        assert_eq!(found(&["*.parquet"]).unwrap_err(), "*.parquet: no file matches");
        assert!(found(&["a["]).unwrap_err().starts_with("a[: not a pattern of files: "));
        assert!(found(&["notes.docx"]).unwrap_err().contains("give the `format`"));
    }

    #[test]
    fn the_specs_folder_is_no_pattern() {
        let folder = folder(&["runs [1]/a.txt"]);
        let file = DataFile::new("*.txt");
        assert_eq!(found(&folder.path().join("runs [1]"), &file).unwrap(), ["a.txt"]);
    }

    #[test]
    fn files_for_tests_are_not_trained_on() {
        let parts = ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"];
        let folder = folder(&[parts[0], parts[1], "test-00000-of-00001.parquet"]);
        let found = found(folder.path(), &DataFile::new("."));
        assert_eq!(found.unwrap(), parts.map(|part| format!("./{part}")));
    }

    #[test]
    fn a_split_is_chosen_by_name() {
        let folder = folder(&["quotes_train.jsonl", "quotes_test.csv"]);
        let of = |path: &str, split: &str| {
            let file = DataFile {
                split: Some(split.into()),
                ..DataFile::new(path)
            };
            found(folder.path(), &file)
        };
        assert_eq!(of(".", "test").unwrap(), ["./quotes_test.csv"]);
        assert_eq!(
            of(".", "validation").unwrap_err(),
            ".: it has no split `validation`; it has test, train"
        );
        for path in ["quotes_train.jsonl", "*.csv"] {
            let message = of(path, "test").unwrap_err();
            assert!(message.contains("among which a split (`test`) chooses"), "{message}");
        }
    }

    #[test]
    fn a_folder_needs_data() {
        let folder = folder(&["README.md", "a.txt/x"]);
        let message = found(folder.path(), &DataFile::new("")).unwrap_err();
        assert!(message.contains(": it has no files that can be read"), "{message}");
    }

    #[test]
    fn a_file_that_was_written_or_replaced_is_not_the_same() {
        let folder = folder(&["a.txt"]);
        let path = folder.path().join("a.txt");
        let stamp = Stamp::of(&path).unwrap();
        stamp.check(&path).unwrap();
        fs::write(&path, "longer").unwrap();
        let message = stamp.check(&path).unwrap_err().to_string();
        assert!(message.contains("changed while it was read"), "{message}");
    }
}
