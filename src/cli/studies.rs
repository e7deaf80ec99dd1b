//! The studies on disk that a command's arguments name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::results::collect::{Collection, collect};
use crate::results::store::{CellDir, StudyDir};
use crate::spec::{self, Overrides, Study};

/// True if a path is a spec, and not a study.
pub(super) fn is_spec(path: &Path) -> bool {
    !path.is_dir() && path.file_name().is_none_or(|name| name != spec::STUDY_FILE)
}

/// The study of a spec or in a folder, as its last run left it. `results` is its folder, if that is not `results/NAME`.
pub(super) fn open(path: &Path, results: Option<&Path>) -> anyhow::Result<(StudyDir, Study)> {
    let folder = match results {
        Some(folder) => folder.to_path_buf(),
        None if path.is_dir() => path.to_path_buf(),
        None if path.file_name().is_some_and(|name| name == spec::STUDY_FILE) => parent(path),
        None => Path::new("results").join(spec::load(path, &Overrides::from_environment(Vec::new())?)?.name),
    };
    if !folder.join(spec::STUDY_FILE).exists() {
        bail!(
            "`{}` holds no study (there is no `{}` in it); `expctl run` makes one",
            folder.display(),
            spec::STUDY_FILE
        );
    }
    let study = Study::read(&folder)?;
    Ok((StudyDir::new(folder), study))
}

/// The study in a folder, or those directly below it in the order of their names.
pub(super) fn below(folder: &Path) -> anyhow::Result<Vec<StudyDir>> {
    if folder.join(spec::STUDY_FILE).exists() {
        return Ok(vec![StudyDir::new(folder)]);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    let mut studies = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list `{}`", folder.display()))?
            .path();
        if path.join(spec::STUDY_FILE).exists() {
            studies.push(StudyDir::new(path));
        }
    }
    studies.sort_by(|a, b| a.path().cmp(b.path()));
    if studies.is_empty() {
        bail!("`{}` holds no study; `expctl run` makes one", folder.display());
    }
    Ok(studies)
}

/// The folder of the cell that `wanted` names: a path, or the beginning of an id in a study below `results`.
pub(super) fn cell(wanted: &str, results: &Path) -> anyhow::Result<CellDir> {
    let path = Path::new(wanted);
    if path.is_dir() {
        return Ok(CellDir::new(path));
    }
    if path.is_file() {
        return Ok(CellDir::new(parent(path)));
    }
    let mut found: Vec<CellDir> = Vec::new();
    for study in below(results)? {
        found.extend(study.cells()?.into_iter().filter(|cell| cell.id().starts_with(wanted)));
    }
    match found.as_slice() {
        [] => bail!(
            "no cell in `{}` has an id that begins with `{wanted}`; `expctl list` shows them",
            results.display()
        ),
        [_] => Ok(found.remove(0)),
        several => {
            let paths: Vec<String> = several
                .iter()
                .map(|cell| format!("  {}", cell.path().display()))
                .collect();
            bail!(
                "`{wanted}` is {} cells; name one by its path:\n{}",
                several.len(),
                paths.join("\n")
            )
        }
    }
}

/// Reads a study's records. Warns on stderr about those that are unreadable or left out.
pub(super) fn read(dir: &StudyDir, study: &Study, all: bool) -> anyhow::Result<Collection> {
    let collection = collect(dir, study, all)?;
    for error in &collection.unreadable {
        eprintln!("warning: {error}; the cell is shown as not run");
    }
    match collection.left_out {
        0 => {}
        1 => eprintln!("1 record of a cell that is no longer in the study is left out; `report --all` shows it"),
        n => eprintln!("{n} records of cells that are no longer in the study are left out; `report --all` shows them"),
    }
    Ok(collection)
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
