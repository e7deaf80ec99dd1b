//! Where the names in a cell lead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::configs::{Configs, README};
use super::error::SplitError;
use super::name::HubName;

/// A commit of a repository, and those of its files that are used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// The commit's hash.
    pub commit: String,
    /// Each file with its hash on the hub: SHA-256 for large files, git's for others.
    pub files: BTreeMap<String, String>,
}

/// A revision in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The commit and its files.
    pub revision: Revision,
    /// The folder of the commit's files.
    pub dir: PathBuf,
    /// True if all is there that training needs; false if only its description was asked for.
    pub is_complete: bool,
}

/// The folder that relative paths start at, and what was fetched from the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    base_dir: PathBuf,
    snapshots: BTreeMap<String, Snapshot>,
}

impl Roots {
    /// Relative paths start at `base_dir`; nothing is fetched.
    pub fn new(base_dir: impl Into<PathBuf>) -> Self {
        Self {
            base_dir: base_dir.into(),
            snapshots: BTreeMap::new(),
        }
    }

    /// These roots with snapshots by their [`HubName`] as text.
    pub fn with_snapshots(self, snapshots: BTreeMap<String, Snapshot>) -> Self {
        Self { snapshots, ..self }
    }

    /// A local path.
    pub fn path(&self, path: &str) -> PathBuf {
        self.base_dir.join(path)
    }

    /// The folder that relative paths start at.
    pub fn base_dir(&self) -> &Path {
        &self.base_dir
    }

    /// The snapshot of a model, unless a local directory has its name.
    pub fn model(&self, model: &str) -> Option<&Snapshot> {
        let name = HubName::of_model(model).ok()??;
        self.snapshot(&name, model)
    }

    /// The snapshot of a data set, unless a local file has its name.
    pub fn data_set(&self, path: &str) -> Option<&Snapshot> {
        let name = HubName::of_data(path).ok()??;
        self.snapshot(&name, path)
    }

    /// The files of a split of a data set that was fetched, in order; none of what is not such a set.
    ///
    /// # Errors
    /// The split was not fetched.
    pub fn data_files(&self, path: &str, split: Option<&str>) -> Result<Vec<PathBuf>, SplitError> {
        let (Ok(Some(name)), Some(set)) = (HubName::of_data(path), self.data_set(path)) else {
            return Ok(Vec::new());
        };
        if let Some(path) = name.file().filter(|path| set.revision.files.contains_key(*path)) {
            return Ok(vec![set.dir.join(path)]);
        }
        let has_readme = set.revision.files.contains_key(README);
        let configs = has_readme.then(|| Configs::read(&set.dir.join(README)).ok());
        let files: Vec<String> = set.revision.files.keys().cloned().collect();
        let found = configs
            .flatten()
            .unwrap_or_default()
            .files_of(name.file(), &files, split);
        let files = found.unwrap_or(Err(SplitError::NoData))?.into_iter();
        Ok(files.map(|file| set.dir.join(file)).collect())
    }

    /// The snapshots of a cell with this model and these data paths, by their names.
    pub fn snapshots_of(&self, model: &str, data: &[&str]) -> BTreeMap<String, Snapshot> {
        let model = HubName::of_model(model)
            .unwrap_or_default()
            .filter(|_| self.model(model).is_some());
        let of_data = |path: &&str| {
            let name = HubName::of_data(path).unwrap_or_default();
            name.filter(|_| self.data_set(path).is_some())
        };
        let names = model.into_iter().chain(data.iter().filter_map(of_data));
        let names = names.map(|name| name.to_string());
        names
            .filter_map(|name| self.snapshots.get_key_value(&name))
            .map(|(name, found)| (name.clone(), found.clone()))
            .collect()
    }

    fn snapshot(&self, name: &HubName, written: &str) -> Option<&Snapshot> {
        let snapshot = self.snapshots.get(&name.to_string())?;
        (!self.path(written).exists()).then_some(snapshot)
    }
}

/// Roots without snapshots.
impl<P: AsRef<Path> + ?Sized> From<&P> for Roots {
    fn from(base_dir: &P) -> Self {
        Self::new(base_dir.as_ref())
    }
}
