//! The studies on disk that a command's arguments name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base::text::counted;
use base::whole_file;
use records::store::STUDY_FILE;
use records::store::{CellDir, StudyDir};
use results::collect::{Collection, Unreadable, collect};
use spec::{Overrides, Study};

/// True if a path is a spec, and not a study.
pub(super) fn is_spec(path: &Path) -> bool {
    !path.is_dir() && !is_of_study(path)
}

/// True if a file is that of a study's folder, which has its cells beside it. A spec may have the same name.
fn is_of_study(path: &Path) -> bool {
    let has_name = path.file_name().is_some_and(|name| name == STUDY_FILE);
    has_name && whole_file::folder_of(path).join("cells").is_dir()
}

/// There is no study in a folder.
#[derive(Debug, thiserror::Error)]
#[error("`{folder}` holds no study (there is no `{STUDY_FILE}` in it); `expctl run` makes one", folder = .0.display())]
pub(super) struct NoStudy(PathBuf);

/// The study of a spec or in a folder, as its last run left it. `results` is its folder, if that is not `results/NAME`.
///
/// # Errors
/// [`NoStudy`], or the study cannot be read.
pub(super) fn open(path: &Path, results: Option<&Path>) -> anyhow::Result<(StudyDir, Study)> {
    let folder = match results {
        Some(folder) => folder.to_path_buf(),
        None if path.is_dir() => path.to_path_buf(),
        None if is_of_study(path) => whole_file::folder_of(path).to_path_buf(),
        None => Path::new("results").join(spec::load(path, &Overrides::from_environment(Vec::new())?)?.name),
    };
    if !folder.join(STUDY_FILE).exists() {
        return Err(NoStudy(folder).into());
    }
    let study = Study::read(&folder)?;
    Ok((StudyDir::new(folder), study))
}

/// The folders of results: a run's, and the published reports' with their frames.
pub(super) const FOLDERS: [&str; 2] = ["results", "reports"];

/// Results of a study.
pub(super) enum Results {
    /// Its folder, with a record for each cell.
    Study(StudyDir),
    /// The frame that is kept beside its report.
    Frame(PathBuf),
}

impl Results {
    /// The file or folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Study(dir) => dir.path(),
            Self::Frame(path) => path,
        }
    }

    /// The study's name in lists.
    pub(super) fn name(&self) -> String {
        let name = match self {
            Self::Study(dir) => dir.path().file_name(),
            Self::Frame(path) => path.file_stem(),
        };
        name.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The results in `given`, a study's folder, a frame or a folder of these; by default those in [`FOLDERS`]. A frame is
/// left out if its study is there.
///
/// # Errors
/// A folder cannot be listed, or there are no results.
pub(super) fn results(given: Option<&Path>) -> anyhow::Result<Vec<Results>> {
    let folders = given.map_or_else(
        || FOLDERS.map(PathBuf::from).to_vec(),
        |given| vec![given.to_path_buf()],
    );
    let mut found: Vec<Results> = Vec::new();
    for folder in &folders {
        if folder.join(STUDY_FILE).exists() {
            found.push(Results::Study(StudyDir::new(folder)));
        } else if folder.is_file() {
            found.push(Results::Frame(folder.clone()));
        } else if given.is_some() || folder.exists() {
            found.extend(studies_in(folder)?.into_iter().map(Results::Study));
            for frame in frames_in(folder)?.into_iter().map(Results::Frame) {
                if found.iter().all(|known| known.name() != frame.name()) {
                    found.push(frame);
                }
            }
        }
    }
    if found.is_empty() {
        bail!("`{}` holds no study; `expctl run` makes one", folders[0].display());
    }
    Ok(found)
}

/// The frames that are kept beside the reports in a folder, in the order of their names.
pub(super) fn frames_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut frames = entries(folder)?;
    frames.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".parquet") && !name.ends_with(".timeline.parquet")
    });
    Ok(frames)
}

fn studies_in(folder: &Path) -> anyhow::Result<Vec<StudyDir>> {
    let mut folders = entries(folder)?;
    folders.retain(|path| path.join(STUDY_FILE).exists());
    Ok(folders.into_iter().map(StudyDir::new).collect())
}

/// What lies in a folder, in the order of the names.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot list `{}`", folder.display());
    let listed = fs::read_dir(folder).with_context(cannot)?;
    let mut paths = Vec::new();
    for entry in listed {
        paths.push(entry.with_context(cannot)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The study in a folder, or those directly below it in the order of their names.
pub(super) fn below(folder: &Path) -> anyhow::Result<Vec<StudyDir>> {
    if folder.join(STUDY_FILE).exists() {
        return Ok(vec![StudyDir::new(folder)]);
    }
    let studies = studies_in(folder)?;
    if studies.is_empty() {
        bail!("`{}` holds no study; `expctl run` makes one", folder.display());
    }
    Ok(studies)
}

/// The folder of the cell that `wanted` names: a path, or the beginning of an id in a study below `results`.
pub(super) fn cell(wanted: &str, results: &Path) -> anyhow::Result<CellDir> {
    let path = Path::new(wanted);
    if path.exists() {
        return Ok(cell_at(path));
    }
    let mut found: Vec<CellDir> = Vec::new();
    for study in below(results)? {
        found.extend(study.cells()?.into_iter().filter(|cell| cell.id().starts_with(wanted)));
    }
    only_cell(wanted, found)?.with_context(|| {
        format!(
            "no cell in `{}` has an id that begins with `{wanted}`; `expctl list` shows them",
            results.display()
        )
    })
}

/// The cell of a folder, or of a file in it.
pub(super) fn cell_at(path: &Path) -> CellDir {
    match path.is_dir() {
        true => CellDir::new(path),
        false => CellDir::new(whole_file::folder_of(path)),
    }
}

/// The cell that `wanted` names; `None` if there is none.
///
/// # Errors
/// There are several.
pub(super) fn only_cell(wanted: &str, mut found: Vec<CellDir>) -> anyhow::Result<Option<CellDir>> {
    if found.len() > 1 {
        let paths = found.iter().map(|cell| format!("\n  {}", cell.path().display()));
        bail!(
            "`{wanted}` is {} cells; name one by its path:{}",
            found.len(),
            paths.collect::<String>()
        );
    }
    Ok(found.pop())
}

/// Reads a study's records. Warns on stderr about those that are unreadable or left out.
pub(super) fn read(dir: &StudyDir, study: &Study, all: bool) -> anyhow::Result<Collection> {
    let collection = collect(dir, study, all)?;
    for error in &collection.unreadable {
        let shown = match error {
            Unreadable::Prediction(_) => "without a prediction",
            Unreadable::Record(_) | Unreadable::Cell(_) => "as not run",
        };
        super::warn(&format!("{error}; the cell is shown {shown}"));
    }
    if collection.unproven > 0 {
        let records = counted(collection.unproven, "record");
        eprintln!(
            "warning: {records} without hashes, written by an older version: a changed byte would not be noticed"
        );
    }
    match collection.left_out {
        0 => {}
        1 => eprintln!("1 record of a cell that is no longer in the study is left out; `report --all` shows it"),
        n => eprintln!("{n} records of cells that are no longer in the study are left out; `report --all` shows them"),
    }
    Ok(collection)
}
