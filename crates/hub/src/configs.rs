//! What the README of a data set says of its files: `configs` in its header, as Python's `datasets` reads them
//! (`datasets.utils.metadata.MetadataConfigs`).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base::foreign;
use glob::{MatchOptions, Pattern};
use serde::Deserialize;

use super::error::SplitError;
use super::splits::{TRAIN, files_of_split, is_same_split, whole_parts};

/// The file with the header.
pub(super) const README: &str = "README.md";

/// The configurations of a data set; none where its README names none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Configs {
    configs: Vec<Config>,
}

/// Some files of a data set, by their splits.
#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default = "default_name")]
    config_name: String,
    data_files: Option<DataFiles>,
    data_dir: Option<String>,
    #[serde(default)]
    default: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum DataFiles {
    Train(Patterns),
    Listed(Vec<SplitFiles>),
    BySplit(BTreeMap<String, Patterns>),
}

#[derive(Debug, Deserialize)]
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
    /// Those of a README. A header that cannot be read says nothing.
    pub(super) fn of(readme: &str) -> Self {
        let header = readme.trim_start_matches('\u{feff}').strip_prefix("---");
        let header = header.and_then(|rest| rest.split_once("\n---"));
        let configs = header.and_then(|(header, _)| serde_saphyr::from_str(header).ok());
        configs.unwrap_or_default()
    }

    /// The names, of which one can be asked for.
    pub(super) fn names(&self) -> Vec<String> {
        self.configs.iter().map(|config| config.config_name.clone()).collect()
    }

    /// Those of a README on disk.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(readme: &Path) -> io::Result<Self> {
        let text = foreign::read_small(readme)?;
        Ok(Self::of(&String::from_utf8_lossy(&text)))
    }

    /// The files of a split of the configuration with this name, or of the default one; `None` where there is no such
    /// configuration, and none at all.
    ///
    /// # Errors
    /// No configuration is the default one; or this one has no such split, or no files of it.
    fn files(
        &self,
        name: Option<&str>,
        files: &[String],
        split: Option<&str>,
    ) -> Option<Result<Vec<String>, SplitError>> {
        let config = match (name, &self.configs[..]) {
            (_, []) => return None,
            (Some(name), configs) => configs.iter().find(|config| config.config_name == name)?,
            (None, [only]) => only,
            (None, configs) => {
                let is_default = |config: &&Config| config.default || config.config_name == DEFAULT;
                let Some(default) = configs.iter().find(is_default) else {
                    let choices = self.names();
                    return Some(Err(SplitError::Several { choices }));
                };
                default
            }
        };
        Some(config.files(files, split))
    }

    /// The files of a split: of the configuration or in the folder that `path` names, or of the whole data set. `None`
    /// where `path` names neither.
    ///
    /// # Errors
    /// As [`Self::files`], for what is named.
    pub(super) fn files_of(
        &self,
        path: Option<&str>,
        files: &[String],
        split: Option<&str>,
    ) -> Option<Result<Vec<String>, SplitError>> {
        if let Some(found) = self.files(path, files, split) {
            return Some(found);
        }
        let within = below(files, path.unwrap_or_default());
        (path.is_none() || !within.is_empty()).then(|| files_of_split(&within, split))
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
        let folder = self.data_dir.as_deref().map_or("", |dir| dir.trim_matches('/'));
        let within = below(files, folder);
        let Some(data_files) = &self.data_files else {
            return files_of_split(&within, split);
        };
        let splits = data_files.by_split();
        let wanted = split.unwrap_or(TRAIN);
        let found = splits.iter().find(|(name, _)| is_same_split(name, wanted));
        let found = found.or_else(|| splits.first().filter(|_| split.is_none() && splits.len() == 1));
        let Some((_, patterns)) = found else {
            return Err(SplitError::NoSplit {
                split: wanted.into(),
                splits: splits.into_iter().map(|(name, _)| name.to_owned()).collect(),
            });
        };
        let relative = |file: &String| match folder {
            "" => file.clone(),
            folder => file[folder.len() + 1..].to_owned(),
        };
        let relative: Vec<(String, &String)> = within.iter().map(|file| (relative(file), file)).collect();
        let options = MatchOptions {
            require_literal_separator: true,
            ..MatchOptions::new()
        };
        let mut chosen: Vec<String> = Vec::new();
        for pattern in *patterns {
            let text = pattern.trim_start_matches("./");
            let pattern = Pattern::new(text).ok();
            let is_meant = |name: &str| {
                let matches = pattern
                    .as_ref()
                    .is_some_and(|pattern| pattern.matches_with(name, options));
                matches || name == text
            };
            for (name, file) in &relative {
                if is_meant(name) && !chosen.contains(file) {
                    chosen.push((*file).clone());
                }
            }
        }
        whole_parts(&chosen)
    }
}

impl DataFiles {
    /// The patterns of each split.
    fn by_split(&self) -> Vec<(&str, &[String])> {
        match self {
            Self::Train(patterns) => vec![(TRAIN, patterns.list())],
            Self::Listed(splits) => splits.iter().map(|of| (&*of.split, of.path.list())).collect(),
            Self::BySplit(splits) => splits.iter().map(|(split, path)| (&**split, path.list())).collect(),
        }
    }
}

impl Patterns {
    fn list(&self) -> &[String] {
        match self {
            Self::One(pattern) => std::slice::from_ref(pattern),
            Self::Several(patterns) => patterns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "---
license: mit
configs:
- config_name: main
  default: true
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: [main/test-00000-of-00001.parquet]
- config_name: extra
  data_files: 'extra/**/*.jsonl'
- config_name: folder
  data_dir: folder
- config_name: map
  data_dir: maps
  data_files: {validation: 'a.csv', held_out: ['b.csv', 'c.csv']}
---
# A data set
---
";

    fn files(name: Option<&str>, split: Option<&str>) -> Result<Vec<String>, String> {
        let all = [
            "README.md",
            "extra/a.jsonl",
            "extra/deep/b.jsonl",
            "folder/test.csv",
            "folder/train.csv",
            "main/test-00000-of-00001.parquet",
            "main/train-00000-of-00002.parquet",
            "main/train-00001-of-00002.parquet",
            "maps/a.csv",
            "maps/b.csv",
            "maps/c.csv",
        ];
        let all = all.map(str::to_owned);
        let found = Configs::of(README).files(name, &all, split).expect("a configuration");
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn a_configuration_names_the_files_of_its_splits() {
        let both = ["main/train-00000-of-00002.parquet", "main/train-00001-of-00002.parquet"];
        assert_eq!(files(None, None).unwrap(), both);
        assert_eq!(files(Some("main"), Some("train")).unwrap(), both);
        assert_eq!(files(None, Some("test")).unwrap(), ["main/test-00000-of-00001.parquet"]);
        assert_eq!(
            files(Some("extra"), None).unwrap(),
            ["extra/a.jsonl", "extra/deep/b.jsonl"]
        );
        assert_eq!(files(Some("folder"), Some("test")).unwrap(), ["folder/test.csv"]);
        assert_eq!(
            files(Some("map"), Some("held_out")).unwrap(),
            ["maps/b.csv", "maps/c.csv"]
        );
        assert_eq!(files(Some("map"), Some("dev")).unwrap(), ["maps/a.csv"]);
        let error = files(Some("map"), None).unwrap_err();
        assert!(
            error.contains("has no split `train`") && error.contains("held_out"),
            "{error}"
        );
    }

    #[test]
    fn without_a_default_one_must_be_named() {
        let readme =
            "---\nconfigs:\n- config_name: en\n  data_files: en.csv\n- config_name: fr\n  data_files: fr.csv\n---\n";
        let configs = Configs::of(readme);
        let error = configs.files(None, &[], None).expect("an answer").unwrap_err();
        assert!(
            error.to_string().contains("en, fr") || error.to_string().contains("en"),
            "{error}"
        );
        assert!(configs.files(Some("de"), &[], None).is_none());
        let only = Configs::of("---\nconfigs:\n- data_files: [a.csv]\n---\n");
        assert_eq!(only.names(), ["default"]);
        let found = only
            .files(None, &["a.csv".to_owned()], None)
            .expect("an answer")
            .unwrap();
        assert_eq!(found, ["a.csv"]);
    }

    #[test]
    fn other_headers_say_nothing() {
        for readme in [
            "",
            "# Quotes",
            "---\nlicense: mit\n---\n",
            "---\nconfigs: [\n---\n",
            "--- \nconfigs: 3\n---\n",
        ] {
            assert!(Configs::of(readme).files(None, &[], None).is_none(), "{readme}");
        }
    }
}
