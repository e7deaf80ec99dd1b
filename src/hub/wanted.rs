//! The files of a repository that a study needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use hf_hub::api::Progress;
use serde::Deserialize;

use super::error::{HubError, file_error};
use super::name::is_inside;
use super::repository::Repository;
use crate::options::DataFormat;

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
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
    if wanted.tokenizer && repository.has(TOKENIZER)? {
        repository.fetch(TOKENIZER, progress)?;
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

/// The files that an index names.
fn shards(repository: &mut Repository<'_>, progress: &mut dyn Progress) -> Result<BTreeSet<String>, HubError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let path = repository.fetch(INDEX, progress)?;
    let text = fs::read(&path).map_err(file_error("read", &path))?;
    // The trainer reads the index again, and says what is wrong with it.
    let index: Option<Index> = serde_json::from_slice(&text).ok();
    let shards = index.map_or_else(BTreeMap::new, |index| index.weight_map).into_values();
    Ok(shards.filter(|shard| is_inside(shard)).collect())
}

/// The files of a data set: the one that its name gives, or those of the split `train`.
///
/// # Errors
/// There is no such file, or several sets of files could be meant; or the hub does not answer.
pub fn data_files(repository: &Repository<'_>) -> Result<Vec<String>, HubError> {
    if let Some(file) = repository.name().file() {
        return Ok(vec![file.to_owned()]);
    }
    let mut readable = repository.files()?;
    readable.retain(|file| is_data(file));
    match train_files(&readable) {
        Some(files) => Ok(files.into_iter().map(str::to_owned).collect()),
        None if readable.is_empty() => Err(HubError::NoData {
            name: Box::new(repository.name().clone()),
        }),
        None => Err(HubError::SeveralFiles {
            name: Box::new(repository.name().clone()),
            choices: readable,
        }),
    }
}

/// True for data; texts such as a README are about it.
fn is_data(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file).to_ascii_lowercase();
    let about = ["readme", "license", "requirements", "."];
    DataFormat::of_path(file).is_some() && !name.ends_with(".md") && !about.iter().any(|start| name.starts_with(start))
}

/// The only file, or the parts of one file that its name says is for training; `None` if there are several, or if parts are
/// missing.
fn train_files(readable: &[String]) -> Option<Vec<&str>> {
    let all: BTreeSet<Whole> = readable.iter().map(|file| Whole::of(file)).collect();
    let train: Vec<&Whole> = all.iter().filter(|whole| is_train(whole.name)).collect();
    let only = match (all.len(), train.as_slice()) {
        (1, _) => all.first()?,
        (_, [only]) => only,
        _ => return None,
    };
    let parts = readable
        .iter()
        .map(String::as_str)
        .filter(|file| Whole::of(file) == *only);
    let parts: Vec<&str> = parts.collect();
    only.parts.is_none_or(|count| count == parts.len()).then_some(parts)
}

/// What the parts of a file share.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Whole<'a> {
    /// The path without `-00000-of-00002.parquet`, or without the number of a converted part.
    name: &'a str,
    extension: &'a str,
    /// How many parts there are, if the name says it.
    parts: Option<usize>,
}

impl<'a> Whole<'a> {
    fn of(file: &'a str) -> Self {
        let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
        let numbered = stem.rsplit_once("-of-").and_then(|(rest, total)| {
            let (name, part) = rest.rsplit_once('-')?;
            (is_number(part) && is_number(total)).then_some((name, total.parse().ok()))
        });
        let converted = stem.rsplit_once('/').filter(|(_, part)| is_number(part));
        let (name, parts) = match (numbered, converted) {
            (Some((name, parts)), _) => (name, parts),
            (None, Some((folder, _))) => (folder, None),
            (None, None) => (stem, None),
        };
        Self { name, extension, parts }
    }
}

fn is_number(text: &str) -> bool {
    text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_train(file: &str) -> bool {
    let mut words = file.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word.eq_ignore_ascii_case("train") || word.eq_ignore_ascii_case("training"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[&str]) -> Option<Vec<String>> {
        let readable: Vec<String> = files
            .iter()
            .filter(|file| is_data(file))
            .map(|file| (*file).to_owned())
            .collect();
        train_files(&readable).map(|files| files.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn the_files_of_the_training_split() {
        let of = |files: &[&str]| Some(files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>());
        assert_eq!(chosen(&["README.md", "quotes.jsonl"]), of(&["quotes.jsonl"]));
        assert_eq!(
            chosen(&[
                "data/test-00000-of-00001.parquet",
                "data/train-00000-of-00002.parquet",
                "data/train-00001-of-00002.parquet"
            ]),
            of(&["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"])
        );
        assert_eq!(
            chosen(&[
                "default/train/0000.parquet",
                "default/train/0001.parquet",
                "default/test/0000.parquet"
            ]),
            of(&["default/train/0000.parquet", "default/train/0001.parquet"])
        );
        for several in [
            &["en/train.jsonl", "fr/train.jsonl"][..],
            &["train.jsonl", "train.parquet"],
            &["train-00000-of-00002.parquet"],
            &["a.jsonl", "b.jsonl"],
            &[],
            &["README.md"],
        ] {
            assert_eq!(chosen(several), None, "{several:?}");
        }
    }
}
