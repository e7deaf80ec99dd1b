//! What a study needs from the hub, fetched once for all its cells before anything else.

use std::collections::{BTreeMap, BTreeSet};

use arch::{Preset, suggestion};
use cell::{Cell, Data, Weights};
use hub::{Hub, HubError, HubName, Progress, Repository, Roots, Settings, Wanted};
use spec::{Study, StudyCell};

use super::preflight::{PreflightError, Reason};

/// The command that the files are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A look at the spec: a model's configuration alone.
    Check,
    /// Predictions: also what decides the lengths of texts.
    Plan,
    /// Training: also the weights.
    Train,
}

/// A name of the hub as some cells have it.
struct Request {
    key: &'static str,
    written: String,
    /// The first cell's place in the study.
    cell: usize,
    wanted: Wanted,
    /// The splits of a data set.
    splits: BTreeSet<Option<String>>,
    /// False if all these cells have results: then only the commit is looked up.
    is_due: bool,
}

impl Request {
    /// Fetches what the purpose needs.
    fn fetch<'a>(
        &self,
        hub: &'a Hub,
        name: &HubName,
        purpose: Purpose,
        progress: &mut dyn Progress,
    ) -> Result<Repository<'a>, HubError> {
        let mut repository = hub.open(name)?;
        if self.key == "model" {
            let wanted = Wanted {
                tokenizer: self.wanted.tokenizer && purpose != Purpose::Check,
                weights: self.wanted.weights && purpose == Purpose::Train,
            };
            hub::fetch_model(&mut repository, wanted, progress)?;
            if self.wanted.weights && purpose == Purpose::Check {
                hub::check_weights(&repository)?;
            }
            return Ok(repository);
        }
        for split in &self.splits {
            let files = hub::data_files(&mut repository, split.as_deref())?;
            for file in files.iter().filter(|_| purpose != Purpose::Check) {
                repository.fetch(file, progress)?;
            }
        }
        Ok(repository)
    }
}

/// Fetches what the cells that are due need, and has the study know it. Of the others only the commits are looked up,
/// to say which have moved. Returns remarks for the user. A study without names of the hub asks nothing and reads no
/// settings.
///
/// # Errors
/// The first name that leads to nothing, with the reason.
pub fn fetch(
    study: &mut Study,
    purpose: Purpose,
    is_due: impl Fn(&StudyCell) -> bool,
    progress: &mut dyn Progress,
) -> Result<Vec<String>, PreflightError> {
    let requests = requests(study, is_due);
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let hub = Hub::new(&Settings::from_environment());
    let (mut snapshots, mut notes) = (BTreeMap::new(), Vec::new());
    for (name, request) in requests {
        if !request.is_due {
            if let Ok(repository) = hub.open(&name) {
                snapshots.insert(name.to_string(), repository.into_snapshot(false));
            }
            continue;
        }
        let repository = request.fetch(&hub, &name, purpose, progress);
        let repository = repository.map_err(|error| {
            let reason = reason(error, request.key, &request.written, &study.roots());
            PreflightError::new(study, &study.cells[request.cell], request.key, &request.written, reason)
        })?;
        if let Some(reason) = repository.stale() {
            notes.push(format!(
                "the hub does not answer ({reason}); `{}` is taken from the cache, at commit {}",
                request.written,
                short(repository.commit())
            ));
        }
        snapshots.insert(name.to_string(), repository.into_snapshot(purpose == Purpose::Train));
    }
    study.snapshots = snapshots;
    Ok(notes)
}

/// Fetches the configuration of a model that the command line names, if it is one of the hub that no preset describes.
///
/// # Errors
/// The name leads to nothing.
pub fn fetch_description(model: &str, progress: &mut dyn Progress) -> Result<Roots, PreflightError> {
    let roots = Roots::from(".");
    let name = match HubName::of_model(model) {
        Ok(Some(name)) if is_remote(model, &roots) && Preset::of_hub_name(model).is_none() => name,
        _ => return Ok(roots),
    };
    let hub = Hub::new(&Settings::from_environment());
    let request = Request {
        key: "model",
        written: model.into(),
        cell: 0,
        wanted: Wanted::default(),
        splits: BTreeSet::new(),
        is_due: true,
    };
    let repository = request.fetch(&hub, &name, Purpose::Plan, progress);
    let repository =
        repository.map_err(|error| PreflightError::of_option("model", model, reason(error, "model", model, &roots)))?;
    let snapshot = repository.into_snapshot(false);
    Ok(roots.with_snapshots(BTreeMap::from([(name.to_string(), snapshot)])))
}

/// The first digits of a commit.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// The names of the hub in a study, each with what its cells need together.
fn requests(study: &Study, is_due: impl Fn(&StudyCell) -> bool) -> BTreeMap<HubName, Request> {
    let roots = study.roots();
    let mut requests = BTreeMap::new();
    for (index, study_cell) in study.cells.iter().enumerate() {
        let (cell, is_due) = (&study_cell.cell, is_due(study_cell));
        let mut add = |name: Option<HubName>, key, written: &str, wanted: Wanted, split: Option<&str>| {
            if let Some(name) = name.filter(|_| is_remote(written, &roots)) {
                let request = requests.entry(name).or_insert_with(|| Request {
                    key,
                    written: written.into(),
                    cell: index,
                    wanted: Wanted::default(),
                    splits: BTreeSet::new(),
                    is_due: false,
                });
                request.is_due |= is_due;
                if is_due {
                    request.wanted = request.wanted.and(wanted);
                    request.splits.insert(split.map(str::to_owned));
                }
            }
        };
        // What is wrong with a name is reported where the spec is checked.
        let model = HubName::of_model(&cell.model).unwrap_or_default();
        add(
            model.filter(|_| !is_described(cell)),
            "model",
            &cell.model,
            wanted(cell),
            None,
        );
        if let Data::File(file) = &cell.data {
            for part in file.parts() {
                for path in part.file.path.iter() {
                    let set = HubName::of_data(path).unwrap_or_default();
                    add(set, part.key, path, Wanted::default(), part.file.split.as_deref());
                }
            }
        }
    }
    requests
}

/// The parts of a cell's model that its training needs.
fn wanted(cell: &Cell) -> Wanted {
    Wanted {
        tokenizer: !matches!(cell.data, Data::Synthetic(_)),
        weights: cell.engine().is_some() && cell.weights() == Weights::Pretrained,
    }
}

/// True if a preset describes the model for PyTorch's stack, which needs no more.
fn is_described(cell: &Cell) -> bool {
    let is_plain = !cell.model.contains("://");
    cell.engine().is_none() && is_plain && Preset::of_hub_name(&cell.model).is_some()
}

/// True unless something on the disk has this name.
fn is_remote(written: &str, roots: &Roots) -> bool {
    !roots.path(written).exists()
}

/// The error, with what the user may have meant instead of a name that leads to nothing.
fn reason(error: HubError, key: &str, written: &str, roots: &Roots) -> Reason {
    let mut hint = String::new();
    let is_absent = matches!(
        error,
        HubError::NoRepository { .. } | HubError::Offline { .. } | HubError::Unreachable { .. }
    );
    if is_absent && !written.contains("://") {
        hint += &format!("; no such path either: {}", roots.path(written).display());
    }
    if is_absent && key == "model" {
        let name = written.rsplit('/').next().unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default().to_lowercase();
        match (Preset::named(&name), suggestion(&name)) {
            (Some(preset), _) => hint += &format!("; the preset `{}` has the shape without weights", preset.name()),
            (None, Some(help)) => hint += &format!("; {help}"),
            (None, None) => {}
        }
    }
    Reason::Hub { error, hint }
}
