//! The files of a repository that a study needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::foreign;
use hf_hub::api::Progress;
use serde::Deserialize;

use super::configs::{Configs, README};
use super::error::{HubError, file_error};
use super::name::{HubName, is_inside};
use super::repository::{Hub, Repository};
use super::settings::Settings;

const CONFIG: &str = "config.json";
/// The tokenizer, its special tokens, and its chat template.
const TOKENIZER_FILES: [&str; 4] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The parts of a model that are needed beside its configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The tokenizer, for texts.
    pub tokenizer: bool,
    /// The weights, for training.
    pub weights: bool,
}

impl Wanted {
    /// What both need.
    pub fn and(self, other: Self) -> Self {
        Self {
            tokenizer: self.tokenizer || other.tokenizer,
            weights: self.weights || other.weights,
        }
    }
}

/// The path of `text` below `folder`; or, where there is none and `text` is the name of a model, that of the model's
/// `file`, from the cache or downloaded.
///
/// # Errors
/// The hub has no such model, or it no such file; or it cannot be downloaded.
pub fn path_or_file(folder: &Path, text: &str, file: &str) -> Result<PathBuf, HubError> {
    let path = folder.join(text);
    // What ends like the file is a path.
    let is_path = path.exists() || Path::new(text).extension() == Path::new(file).extension();
    match HubName::of_model(text) {
        Ok(Some(name)) if !is_path => Hub::new(&Settings::from_environment())
            .open(&name)?
            .fetch(file, &mut ()),
        _ => Ok(path),
    }
}

/// Checks that a model has weights that can be read; offline nobody knows.
///
/// # Errors
/// There are none in safetensors files; or the hub does not answer.
pub fn check_weights(repository: &Repository<'_>) -> Result<(), HubError> {
    if repository.is_cached_only() || repository.has(SINGLE)? || repository.has(INDEX)? {
        return Ok(());
    }
    let files = repository.files()?;
    Err(HubError::NoWeights {
        name: Box::new(repository.name().clone()),
        has_pickles: files.iter().any(|file| file.ends_with(".bin") || file.ends_with(".pt")),
    })
}

/// Fetches the files of a model. A missing tokenizer is left to who reads texts.
///
/// # Errors
/// There is no configuration, or no weights in safetensors files; or a file cannot be downloaded.
pub fn fetch_model(
    repository: &mut Repository<'_>,
    wanted: Wanted,
    progress: &mut dyn Progress,
) -> Result<(), HubError> {
    repository.fetch(CONFIG, progress)?;
    for file in TOKENIZER_FILES.into_iter().filter(|_| wanted.tokenizer) {
        if repository.has(file)? {
            repository.fetch(file, progress)?;
        }
    }
    if !wanted.weights {
        return Ok(());
    }
    if repository.has(SINGLE)? {
        repository.fetch(SINGLE, progress)?;
        return Ok(());
    }
    check_weights(repository)?;
    for shard in shards(repository, progress)? {
        repository.fetch(&shard, progress)?;
    }
    Ok(())
}

/// The files of a data set: the one that its name gives; or those of a split of the configuration or in the folder that
/// its name gives, if it gives one. Configurations are those of its README, which is fetched. The split is `train` by
/// default; a data set of one file needs none.
///
/// # Errors
/// There is no such file, configuration, folder or split; or several sets of files could be meant; or the hub does not
/// answer.
pub fn data_files(repository: &mut Repository<'_>, split: Option<&str>) -> Result<Vec<String>, HubError> {
    let name = Box::new(repository.name().clone());
    let path = name.file();
    if let Some(path) = path
        && repository.has(path)?
    {
        return match split {
            None => Ok(vec![path.to_owned()]),
            Some(split) => Err(HubError::SplitOfFile {
                name: name.clone(),
                split: split.into(),
            }),
        };
    }
    let configs = configs(repository)?;
    match configs.files_of(path, &repository.files()?, split) {
        Some(files) => files.map_err(|error| HubError::Split { name, error }),
        None => Err(repository.no_file(path.unwrap_or_default(), configs.names())),
    }
}

/// The configurations of a data set. Where only the cache can be asked, a README that is not there says nothing.
fn configs(repository: &mut Repository<'_>) -> Result<Configs, HubError> {
    if !repository.has(README)? {
        return Ok(Configs::default());
    }
    let path = match repository.fetch(README, &mut ()) {
        Err(_) if repository.is_cached_only() => return Ok(Configs::default()),
        fetched => fetched?,
    };
    let read = Configs::read(&path).map_err(file_error("read", &path))?;
    read.map_err(|error| HubError::Split {
        name: Box::new(repository.name().clone()),
        error,
    })
}

/// The files that an index names.
fn shards(repository: &mut Repository<'_>, progress: &mut dyn Progress) -> Result<BTreeSet<String>, HubError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let path = repository.fetch(INDEX, progress)?;
    let text = foreign::read_small(&path).map_err(file_error("read", &path))?;
    // The trainer reads the index again, and says what is wrong with it.
    let index: Option<Index> = serde_json::from_slice(&text).ok();
    let shards = index.map_or_else(BTreeMap::new, |index| index.weight_map).into_values();
    Ok(shards.filter(|shard| is_inside(shard)).collect())
}
