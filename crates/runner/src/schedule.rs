//! The schedule of a run: the cells to train, and the results to keep.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::SystemTime;

use base::text::{counted, with_causes};
use cell::Data;
use options::Engine;
use records::store::{CellDir, StoreError, StudyDir, check_files, read_record, read_record_at};
use records::{Provenance, Record, Status};
use results::setting;
use results::timeline;
use serde_json::Value;
use spec::{Fallback, Lineage, OnOom, Study, StudyCell};

use super::fetch::short;
use super::options::Options;
use super::provenance::{VERSION, sources};
use super::status::is_result;
use super::task::{Cached, Overview, Task};

/// The cells to train, and the results to keep.
#[derive(Debug)]
pub struct Schedule {
    /// The run in numbers.
    pub overview: Overview,
    /// The cells to train in the study's order, one round for each repeat. A slow spell of the machine then falls on
    /// all cells, and the repeats of one show it.
    pub tasks: Vec<Task>,
    /// The results to keep.
    pub kept: Vec<Cached>,
    /// Remarks on results that are kept or made again, a line each.
    pub notes: Vec<String>,
}

/// Reads the study's folder. Cells that are ok or oom keep their results; all others run again.
///
/// # Errors
/// If the folder cannot be read, or the system fails to read a file.
pub fn schedule(study: &Study, options: &Options) -> Result<Schedule, StoreError> {
    let dir = StudyDir::new(&options.results);
    let mut tasks = Vec::new();
    let mut kept = Vec::new();
    let mut damaged: Vec<String> = Vec::new();
    let run = study
        .cells
        .iter()
        .enumerate()
        .filter(|(_, study_cell)| study_cell.cell.engine().is_some());
    for (index, study_cell) in run {
        let cell_dir = dir.cell(&study_cell.id);
        let record = match read_record(&cell_dir) {
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) => {
                damaged.push(with_causes(&error));
                None
            }
            Ok(record) => record,
        };
        match record {
            Some(record) if !options.fresh && is_kept(study_cell, record.status) => {
                let damage = match check_files(&cell_dir, &record) {
                    Err(error) if may_pass(&error) => return Err(error),
                    Err(error) => Some(with_causes(&error)),
                    Ok(()) => damaged_timeline(study, &record, &cell_dir).or_else(|| missing_model(study, &record)),
                };
                match damage {
                    None => kept.push(Cached { index, record }),
                    Some(error) => {
                        damaged.push(error);
                        tasks.push(task(study, index, record.attempt + 1));
                    }
                }
            }
            record => tasks.push(task(study, index, attempts(&cell_dir, record) + 1)),
        }
    }
    // The repeats of a cell are next to each other in the study.
    tasks.sort_by_key(|task| task.index % study.repeats);
    let mut notes = Vec::new();
    notes.extend(
        damaged
            .into_iter()
            .map(|error| format!("{error}: this cell is run again")),
    );
    notes.extend(other_versions(&kept));
    notes.extend(changed_data(study, &kept));
    notes.extend(moved(study, &kept));
    notes.extend(without_timeline(study, &dir, &kept));
    notes.extend(without_speeds(study, &kept));
    notes.extend(one_after_the_other(study));
    notes.extend(left_over(study, &dir)?);
    Ok(Schedule {
        overview: Overview {
            name: study.name.clone(),
            results: options.results.clone(),
            cells: study.cells.len(),
            to_run: tasks.len(),
            kept: kept.len(),
            planned: study
                .cells
                .iter()
                .filter(|study_cell| study_cell.cell.engine().is_none())
                .count(),
        },
        tasks,
        kept,
        notes,
    })
}

/// True if a file may be readable the next time, so that its cell is not run again: the system failed, but not for a lack
/// of permission, which is of this file.
fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() != ErrorKind::PermissionDenied)
}

/// The ids of the cells whose models and data a run needs: those that it trains or plans, and those whose values or
/// rungs it has yet to find.
///
/// # Errors
/// If the folder cannot be read.
pub fn due(study: &Study, options: &Options) -> Result<HashSet<String>, StoreError> {
    let Schedule { tasks, kept, .. } = schedule(study, options)?;
    let is_followed =
        |kept: &&Cached| study.on_oom != OnOom::Record && matches!(kept.record.status, Status::Oom | Status::Oversize);
    let tasks = tasks.into_iter().map(|task| task.cell_id);
    let kept = kept
        .iter()
        .filter(is_followed)
        .map(|kept| study.cells[kept.index].id.clone());
    let others = study
        .cells
        .iter()
        .filter(|study_cell| study_cell.cell.engine().is_none() || study_cell.cell.is_open());
    Ok(tasks
        .chain(kept)
        .chain(others.map(|study_cell| study_cell.id.clone()))
        .collect())
}

/// True if a cell with this outcome is not run again. A rung that the prediction rules out stays so.
pub(super) fn is_kept(study_cell: &StudyCell, status: Status) -> bool {
    is_result(status) || study_cell.is_fallback() && status == Status::Oversize
}

/// The next attempt at a cell.
pub(super) fn task_of(study: &Study, dir: &StudyDir, index: usize) -> Task {
    let cell_dir = dir.cell(&study.cells[index].id);
    let record = read_record(&cell_dir).unwrap_or_default();
    task(study, index, attempts(&cell_dir, record) + 1)
}

fn task(study: &Study, index: usize, attempt: u32) -> Task {
    let study_cell = &study.cells[index];
    Task {
        label: label(study, study_cell),
        attempt,
        index,
        ..Task::alone(study_cell.id.clone())
    }
}

fn label(study: &Study, study_cell: &StudyCell) -> String {
    let axis = |(name, _): (&String, &Value)| format!("{name}={}", setting(name, &study_cell.shown_axis(name).into()));
    let mut parts: Vec<String> = study_cell.heeded_axes().map(axis).collect();
    if study.shows_seeds() {
        parts.push(format!("seed={}", study_cell.cell.seed));
    }
    if let Lineage::Fallback(Fallback { of, step }) = &study_cell.lineage {
        parts.push(format!("({} of {of})", step.name()));
    }
    parts.join(" ")
}

/// The record of the previous attempt while a new one runs. It holds the number of attempts and is not a result.
pub(super) fn previous_record(dir: &CellDir) -> PathBuf {
    dir.path().join("record.previous.json")
}

/// The number of attempts at a cell so far.
fn attempts(dir: &CellDir, record: Option<Record>) -> u32 {
    let previous = || read_record_at(&previous_record(dir)).ok().flatten();
    record.or_else(previous).map_or(0, |record| record.attempt)
}

/// A remark on kept results of other versions.
fn other_versions(kept: &[Cached]) -> Option<String> {
    let own = Engine::Candle.name_in_records();
    let version = |version: &str, built_from: Option<&str>| match built_from {
        Some(built_from) => format!("{own} {version} ({built_from})"),
        None => format!("{own} {version}"),
    };
    let mine = version(VERSION, sources());
    let made_by = |provenance: &Provenance| match provenance.engine.as_deref() {
        Some(engine) if engine != own => engine.to_owned(),
        _ => {
            let built_from = provenance.sources.as_ref().or(provenance.git_commit.as_ref());
            version(&provenance.expctl_version, built_from.map(String::as_str))
        }
    };
    let others = kept.iter().map(|kept| made_by(&kept.record.provenance));
    let others: Vec<_> = others.filter(|other| *other != mine).collect();
    let names: BTreeSet<_> = others.iter().map(String::as_str).collect();
    (!others.is_empty()).then(|| {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        format!(
            "{} made by {names}, and this is {mine}; --fresh makes all again",
            results_were(others.len())
        )
    })
}

/// Remarks on results that are older than their data file. The hash of the data would be exact, but needs tokenising.
fn changed_data(study: &Study, kept: &[Cached]) -> Vec<String> {
    let (mut older, roots): (BTreeMap<String, usize>, _) = (BTreeMap::new(), study.roots());
    for Cached { index, record } in kept {
        let Data::File(file) = &study.cells[*index].cell.data else {
            continue;
        };
        let made = humantime::parse_rfc3339(&record.started_at).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_newer = |path: &PathBuf| {
            let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
            changed.is_ok_and(|changed| changed > made)
        };
        // What is wrong with the files is said before cells are trained.
        if data::all_files(file, &roots).iter().any(is_newer) {
            *older.entry(file.path.to_string()).or_default() += 1;
        }
    }
    older
        .into_iter()
        .map(|(path, count)| {
            format!(
                "{} made before `{path}` was last changed; --fresh makes all again",
                results_were(count)
            )
        })
        .collect()
}

/// Remarks on results of another commit than the one that a name of the hub leads to now.
fn moved(study: &Study, kept: &[Cached]) -> Vec<String> {
    let mut older: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (name, now) in &study.snapshots {
        let then = kept.iter().filter_map(|kept| kept.record.provenance.hub.get(name));
        for then in then.filter(|then| then.commit != now.revision.commit) {
            *older.entry((name, &then.commit, &now.revision.commit)).or_default() += 1;
        }
    }
    let remarks = older.into_iter().map(|((name, then, now), count)| {
        format!(
            "{} made from `{name}` at commit {}, and it is at {} now; --fresh makes all again, and `@{then}` behind the \
             repository's name keeps the old commit",
            results_were(count),
            short(then),
            short(now)
        )
    });
    remarks.collect()
}

/// The damage of the timeline of a cell that ended well, if the study records timelines.
fn damaged_timeline(study: &Study, record: &Record, dir: &CellDir) -> Option<String> {
    let path = dir.timeline();
    if !study.record.timeline || record.status != Status::Ok || !path.exists() {
        return None;
    }
    match timeline::read(&path) {
        Ok(recording) if recording.complete => None,
        Ok(_) => Some(format!("`{}` is cut short", path.display())),
        Err(error) => Some(with_causes(&error)),
    }
}

/// The lack of the model that a cell which ended well should have written.
fn missing_model(study: &Study, record: &Record) -> Option<String> {
    let folder = study.directory.join(study.record.model.as_ref()?);
    (record.status == Status::Ok && !model::is_saved(&folder)).then(|| format!("`{}` has no model", folder.display()))
}

/// A remark on kept results without a timeline. They stay: a timeline does not change their figures.
fn without_timeline(study: &Study, dir: &StudyDir, kept: &[Cached]) -> Option<String> {
    let lacks = |kept: &&Cached| {
        let cell = dir.cell(&study.cells[kept.index].id);
        kept.record.status == Status::Ok && !cell.timeline().exists()
    };
    let count = kept.iter().filter(lacks).count();
    let results = counted(count, "kept result");
    let have = if count == 1 { "has" } else { "have" };
    (study.record.timeline && count > 0)
        .then(|| format!("{results} {have} no timeline; --fresh makes all again and records them"))
}

/// A remark on kept results without speeds.
fn without_speeds(study: &Study, kept: &[Cached]) -> Option<String> {
    let count = kept.iter().filter(|kept| kept.record.concurrent_cells > 1).count();
    let results = counted(count, "kept result");
    let have = if count == 1 { "has" } else { "have" };
    (study.speeds && count > 0).then(|| {
        format!("{results} {have} no speeds, as other cells trained at the same time; --fresh makes all again and measures them")
    })
}

/// A remark on cells that would not train side by side, whatever room there is.
fn one_after_the_other(study: &Study) -> Option<String> {
    let mut cells = study.cells.iter().map(|study_cell| &study_cell.cell);
    let takes_all = cells.all(|cell| cell.threads.is_none());
    (!study.jobs.is_one() && takes_all).then(|| {
        "no cell has `threads`, so each takes all cores, and none trains beside another; write `threads: 1`, for example"
            .to_owned()
    })
}

/// A remark on results of cells that left the spec.
fn left_over(study: &Study, dir: &StudyDir) -> Result<Option<String>, StoreError> {
    let ids: HashSet<_> = study.cells.iter().map(|study_cell| study_cell.id.as_str()).collect();
    let cells = dir.cells()?;
    let count = cells
        .iter()
        .filter(|cell| !ids.contains(cell.id().as_str()) && cell.record().exists())
        .count();
    Ok((count > 0).then(|| match count {
        1 => "1 result of a cell that the spec no longer has stays on disk".into(),
        _ => format!("{count} results of cells that the spec no longer has stay on disk"),
    }))
}

fn results_were(count: usize) -> String {
    let were = if count == 1 { "was" } else { "were" };
    format!("{} {were}", counted(count, "kept result"))
}
