//! What the README of a data set says of its files: `configs` in its header, as Python's `datasets` reads them
//! (`datasets.utils.metadata.MetadataConfigs`, `datasets.data_files.sanitize_patterns`).

mod reader;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use base::foreign;
use glob::{MatchOptions, Pattern};
use options::DataFormat;
use serde::Deserialize;
use serde_json::Value;

use super::error::SplitError;
use super::splits::{TRAIN, files_of_split, is_description, is_glob, is_same_split, leave_markdown_out};

/// The file with the header.
pub(super) const README: &str = "README.md";

/// The configurations of a data set; none where its README names none.
#[derive(Debug, Default)]
pub(super) struct Configs {
    configs: Vec<Config>,
}

#[derive(Deserialize)]
struct Header {
    configs: Option<Vec<Config>>,
}

/// Some files of a data set, by their splits.
#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default = "default_name")]
    config_name: String,
    data_files: Option<DataFiles>,
    data_dir: Option<String>,
    /// Python's `datasets` takes any value that is true in Python.
    #[serde(default)]
    default: Value,
    /// How the files are read.
    #[serde(flatten)]
    settings: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected names of files, or a list of `split` and `path`, under `data_files`"
)]
enum DataFiles {
    Train(Patterns),
    Listed(Vec<SplitFiles>),
    BySplit(BTreeMap<String, Patterns>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitFiles {
    split: String,
    path: Patterns,
}

/// Names of files, with `*` and `**`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Patterns {
    One(String),
    Several(Vec<String>),
}

const DEFAULT: &str = "default";

fn default_name() -> String {
    DEFAULT.into()
}

impl Configs {
    /// Those of a README.
    ///
    /// # Errors
    /// Its header has some, and they cannot be read.
    pub(super) fn of(readme: &str) -> Result<Self, SplitError> {
        let header = readme.trim_start_matches('\u{feff}').strip_prefix("---");
        let Some((header, _)) = header.and_then(|rest| rest.split_once("\n---")) else {
            return Ok(Self::default());
        };
        // As in PyYAML, the last of two equal keys holds.
        let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
        let read = serde_saphyr::from_str_with_options::<Header>(header, options);
        let wrong = |reason: String| SplitError::Header { reason };
        let configs = match read {
            Ok(header) => header.configs.unwrap_or_default(),
            // A header that says nothing of files may be anything.
            Err(_) if !header.lines().any(names_configs) => Vec::new(),
            Err(error) => return Err(wrong(error.without_snippet().to_string())),
        };
        for config in &configs {
            let splits: Vec<_> = config.data_files.iter().flat_map(DataFiles::by_split).collect();
            let is_known = |at: &usize| splits[..*at].iter().any(|(name, _)| *name == splits[*at].0);
            if let Some(at) = (1..splits.len()).find(is_known) {
                let (name, split) = (&config.config_name, splits[at].0);
                return Err(wrong(format!("the configuration `{name}` has two splits `{split}`")));
            }
        }
        Ok(Self { configs })
    }

    /// Those of a README on disk.
    ///
    /// # Errors
    /// It cannot be read, or as [`Self::of`].
    pub(super) fn read(readme: &Path) -> io::Result<Result<Self, SplitError>> {
        let text = foreign::read_small(readme)?;
        Ok(Self::of(&String::from_utf8_lossy(&text)))
    }

    /// The names, of which one can be asked for.
    pub(super) fn names(&self) -> Vec<String> {
        self.configs.iter().map(|config| config.config_name.clone()).collect()
    }

    /// The files of a split: of the configuration or in the folder that `path` names, or of the default configuration or
    /// the whole data set. `None` where `path` names neither.
    ///
    /// # Errors
    /// No configuration is the default one, or several are; or there is no such split, or no files of it; or they are to
    /// be read in a way that is not done here.
    pub(super) fn files_of(
        &self,
        path: Option<&str>,
        files: &[String],
        split: Option<&str>,
    ) -> Option<Result<Vec<String>, SplitError>> {
        let config = match path {
            // As in a dictionary, the last of two with one name holds.
            Some(path) => Ok(self.configs.iter().rfind(|config| config.config_name == path)),
            None => self.default_config(),
        };
        match config {
            Ok(Some(config)) => return Some(config.files(files, split)),
            Ok(None) => {}
            Err(error) => return Some(Err(error)),
        }
        let within = below(files, path.unwrap_or_default());
        (path.is_none() || !within.is_empty()).then(|| files_of_split(&within, split))
    }

    /// The only configuration, or the one that is marked or called so; `None` where there are none at all.
    fn default_config(&self) -> Result<Option<&Config>, SplitError> {
        let is_marked =
            |config: &Config| !matches!(&config.default, Value::Null | Value::Bool(false)) && config.default != 0;
        let is_default = |config: &&Config| is_marked(config) || config.config_name == DEFAULT;
        let defaults: Vec<&Config> = match &self.configs[..] {
            [only] => vec![only],
            configs => configs.iter().filter(is_default).collect(),
        };
        let names: BTreeSet<&str> = defaults.iter().map(|config| &*config.config_name).collect();
        match defaults.last() {
            Some(_) if names.len() > 1 => Err(SplitError::Defaults {
                choices: names.into_iter().map(str::to_owned).collect(),
            }),
            None if !self.configs.is_empty() => Err(SplitError::NoDefault { choices: self.names() }),
            last => Ok(last.copied()),
        }
    }
}

/// The files in a folder, or all for an empty name.
fn below(files: &[String], folder: &str) -> Vec<String> {
    let start = match folder {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    files.iter().filter(|file| file.starts_with(&start)).cloned().collect()
}

impl Config {
    fn files(&self, files: &[String], split: Option<&str>) -> Result<Vec<String>, SplitError> {
        let chosen = self.chosen(files, split)?;
        match reader::asked(&self.settings, &chosen) {
            Some(setting) => Err(SplitError::Setting {
                config: self.config_name.clone(),
                setting,
            }),
            None => Ok(chosen),
        }
    }

    fn chosen(&self, files: &[String], split: Option<&str>) -> Result<Vec<String>, SplitError> {
        let folder = self.data_dir.as_deref().map_or("", plain);
        let within = below(files, folder);
        let Some(data_files) = &self.data_files else {
            return files_of_split(&within, split);
        };
        let patterns = data_files.patterns(split)?;
        let relative = |file: &String| match folder {
            "" => file.clone(),
            folder => file[folder.len() + 1..].to_owned(),
        };
        let relative: Vec<(String, &String)> = within.iter().map(|file| (relative(file), file)).collect();
        let (mut chosen, mut is_there) = (Vec::new(), false);
        for pattern in patterns {
            let mut found = matching(pattern, &relative);
            if found.is_empty() && !is_glob(pattern) {
                return Err(SplitError::NoSuchFile { file: pattern.clone() });
            }
            is_there |= !found.is_empty();
            if is_glob(pattern) {
                found.retain(|file| DataFormat::of_path(file).is_some() && !is_description(file));
                leave_markdown_out(&mut found);
            }
            chosen.extend(found);
        }
        match (chosen.is_empty(), patterns) {
            (true, [pattern, ..]) if !is_there => Err(SplitError::NoSuchFile { file: pattern.clone() }),
            (true, _) => Err(SplitError::NoData),
            _ => Ok(chosen),
        }
    }
}

/// True for the line of a header with the configurations, also where it is broken.
fn names_configs(line: &str) -> bool {
    line.trim_start_matches(['"', '\'']).starts_with("configs")
}

/// A path without `./` and `/` around it.
fn plain(path: &str) -> &str {
    match path {
        "." => "",
        path => path.trim_start_matches("./").trim_matches('/'),
    }
}

/// The files that a name or a pattern names, in the order of their names.
fn matching(pattern: &str, files: &[(String, &String)]) -> Vec<String> {
    let text = pattern.trim_start_matches("./");
    let options = MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..MatchOptions::new()
    };
    let glob = Pattern::new(text).ok();
    let is_meant = |name: &str| {
        let matches = glob.as_ref().is_some_and(|glob| glob.matches_with(name, options));
        name == text || matches
    };
    let found = files.iter().filter(|(name, _)| is_meant(name));
    let mut found: Vec<String> = found.map(|(_, file)| (*file).clone()).collect();
    found.sort_unstable();
    found
}

impl DataFiles {
    /// The splits, each with its patterns.
    fn by_split(&self) -> Vec<(&str, &Patterns)> {
        match self {
            Self::Train(patterns) => vec![(TRAIN, patterns)],
            Self::Listed(splits) => splits.iter().map(|of| (&*of.split, &of.path)).collect(),
            Self::BySplit(splits) => splits.iter().map(|(split, path)| (&**split, path)).collect(),
        }
    }

    /// The patterns of a split: the one with this name, or else with another name of it; without a name `train`, or the
    /// only one.
    fn patterns(&self, split: Option<&str>) -> Result<&[String], SplitError> {
        let by_split = self.by_split();
        let wanted = split.unwrap_or(TRAIN);
        let equal = by_split.iter().find(|(name, _)| *name == wanted);
        let alike = || by_split.iter().find(|(name, _)| is_same_split(name, wanted));
        let only = || by_split.first().filter(|_| split.is_none() && by_split.len() == 1);
        match equal.or_else(alike).or_else(only) {
            Some((_, Patterns::One(pattern))) => Ok(std::slice::from_ref(pattern)),
            Some((_, Patterns::Several(patterns))) => Ok(patterns),
            None => Err(SplitError::NoSplit {
                split: wanted.into(),
                splits: by_split.into_iter().map(|(name, _)| name.to_owned()).collect(),
            }),
        }
    }
}
