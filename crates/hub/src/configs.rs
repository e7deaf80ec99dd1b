//! What the README of a data set says of its files: `configs` in its header, as Python's `datasets` reads them
//! (`datasets.utils.metadata.MetadataConfigs`, `datasets.data_files.sanitize_patterns`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use base::foreign;
use glob::{MatchOptions, Pattern};
use options::DataFormat;
use serde::Deserialize;
use serde_json::Value;

use super::error::SplitError;
use super::splits::{TRAIN, files_of_split, is_description, is_same_split};

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

use DataFormat::{Csv, Json, Jsonl, Parquet, Text, Tsv};

const TABLES: &[DataFormat] = &[Csv, Tsv];
const OBJECTS: &[DataFormat] = &[Json, Jsonl];
const ALL: &[DataFormat] = &[Csv, Tsv, Json, Jsonl, Parquet, Text];
const CHARACTERS: &[DataFormat] = &[Csv, Tsv, Json, Jsonl, Text];

/// The keys of a configuration that change what is read of files in these formats (`CsvConfig`, `JsonConfig`,
/// `ParquetConfig` and `TextConfig` of `datasets` 5.2), with the values that ask for what is done here anyway. It passes
/// over keys that it does not know, and so do we.
const SETTINGS: [(&str, &[DataFormat], &[&str]); 39] = [
    ("column_names", TABLES, &["null"]),
    ("columns", &[Parquet], &["null"]),
    ("comment", TABLES, &["null"]),
    ("converters", TABLES, &["null"]),
    ("date_format", TABLES, &["null"]),
    ("decimal", TABLES, &["."]),
    ("delimiter", &[Csv], &["null", ","]),
    ("delimiter", &[Tsv], &["null", "\t"]),
    ("dialect", TABLES, &["null"]),
    ("doublequote", TABLES, &["true"]),
    ("encoding", CHARACTERS, &["null", "utf-8", "utf8", "UTF-8", "utf_8"]),
    ("encoding_errors", CHARACTERS, &["null", "strict"]),
    ("error_bad_lines", TABLES, &["true"]),
    ("escapechar", TABLES, &["null"]),
    ("false_values", TABLES, &["null"]),
    ("features", ALL, &["null"]),
    ("field", OBJECTS, &["null"]),
    ("filters", &[Parquet], &["null"]),
    ("header", TABLES, &["infer", "0"]),
    ("index_col", TABLES, &["null", "false"]),
    ("keep_linebreaks", &[Text], &["false"]),
    ("lineterminator", TABLES, &["null"]),
    ("na_values", TABLES, &["null"]),
    ("names", TABLES, &["null"]),
    ("nrows", TABLES, &["null"]),
    ("on_bad_files", &[Parquet], &["error"]),
    ("on_bad_lines", TABLES, &["error"]),
    ("quotechar", TABLES, &["\""]),
    ("quoting", TABLES, &["0"]),
    ("sample_by", &[Text], &["paragraph"]),
    ("sep", &[Csv], &[","]),
    ("sep", &[Tsv], &["\t"]),
    ("skip_blank_lines", TABLES, &["true"]),
    ("skipfooter", TABLES, &["0"]),
    ("skipinitialspace", TABLES, &["false"]),
    ("skiprows", TABLES, &["null", "0"]),
    ("thousands", TABLES, &["null"]),
    ("true_values", TABLES, &["null"]),
    ("usecols", TABLES, &["null"]),
];

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
        self.check_settings(&chosen)?;
        Ok(chosen)
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
        let mut chosen: Vec<String> = Vec::new();
        for pattern in patterns {
            let found = matching(pattern, &relative);
            if found.is_empty() && !is_glob(pattern) {
                let file = pattern.clone();
                return Err(SplitError::NoSuchFile { file });
            }
            let readable = match is_glob(pattern) {
                true => readable(found),
                false => found,
            };
            chosen.extend(readable);
        }
        match (chosen.is_empty(), patterns) {
            (true, [pattern, ..]) if patterns.iter().all(|pattern| matching(pattern, &relative).is_empty()) => {
                Err(SplitError::NoSuchFile { file: pattern.clone() })
            }
            (true, _) => Err(SplitError::NoData),
            _ => Ok(chosen),
        }
    }

    /// Checks that nothing is asked of the readers of these files.
    fn check_settings(&self, files: &[String]) -> Result<(), SplitError> {
        let formats: Vec<DataFormat> = files.iter().filter_map(|file| DataFormat::of_path(file)).collect();
        let is_other = |key: &str, value: &Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut rules = SETTINGS
                .iter()
                .filter(|(known, of, _)| *known == key && formats.iter().any(|format| of.contains(format)));
            rules.any(|(.., usual)| !usual.contains(&&*text))
        };
        let mut settings = self.settings.iter();
        match settings.find(|(key, value)| is_other(key, value)) {
            Some((key, value)) => Err(SplitError::Setting {
                config: self.config_name.clone(),
                setting: format!("{key}: {value}"),
            }),
            None => Ok(()),
        }
    }
}

/// True for the line of a header with the configurations, also where it is broken.
fn names_configs(line: &str) -> bool {
    line.trim_start_matches(['"', '\'']).starts_with("configs")
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
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

/// The files that are data of those that a pattern names. Texts in Markdown count if there is nothing else.
fn readable(mut files: Vec<String>) -> Vec<String> {
    files.retain(|file| DataFormat::of_path(file).is_some() && !is_description(file));
    let is_markdown = |file: &String| file.to_ascii_lowercase().ends_with(".md");
    if !files.iter().all(is_markdown) {
        files.retain(|file| !is_markdown(file));
    }
    files
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

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "---
license: mit
configs:
- config_name: main
  default: 1
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: [main/test-00000-of-00001.parquet]
- config_name: extra
  data_files: 'extra/**/*.jsonl'
- config_name: folder
  data_dir: folder
- config_name: here
  data_dir: .
  data_files: maps/a.csv
- config_name: map
  data_dir: ./maps/
  data_files: {validation: 'a.csv', held_out: ['c.csv', 'b.csv']}
- config_name: both
  data_files:
  - {split: dev, path: maps/a.csv}
  - {split: validation, path: maps/b.csv}
- config_name: first
  data_files: [main/train-00000-of-00002.parquet]
- config_name: twice
  data_files: [maps/b.csv, 'maps/*', gone/*.csv]
- config_name: gone
  data_files: [maps/b.csv, maps/d.csv]
- config_name: none
  data_files: 'gone/*'
---
# A data set
---
";

    fn of(readme: &str, name: Option<&str>, split: Option<&str>) -> Result<Vec<String>, String> {
        let all = [
            "README.md",
            "extra/.hidden/a.jsonl",
            "extra/a.jsonl",
            "extra/deep/b.jsonl",
            "folder/test.csv",
            "folder/train.csv",
            "main/test-00000-of-00001.parquet",
            "main/train-00000-of-00002.parquet",
            "main/train-00001-of-00002.parquet",
            "maps/LICENSE",
            "maps/a.csv",
            "maps/b.csv",
            "maps/c.csv",
        ];
        let all = all.map(str::to_owned);
        let configs = Configs::of(readme).map_err(|error| error.to_string())?;
        let found = configs
            .files_of(name, &all, split)
            .expect("a configuration or a folder");
        found.map_err(|error| error.to_string())
    }

    fn files(name: &str, split: Option<&str>) -> Result<Vec<String>, String> {
        of(README, Some(name), split)
    }

    #[test]
    fn a_configuration_names_the_files_of_its_splits() {
        let both = ["main/train-00000-of-00002.parquet", "main/train-00001-of-00002.parquet"];
        assert_eq!(of(README, None, None).unwrap(), both);
        assert_eq!(files("main", Some("train")).unwrap(), both);
        assert_eq!(
            of(README, None, Some("test")).unwrap(),
            ["main/test-00000-of-00001.parquet"]
        );
        assert_eq!(files("extra", None).unwrap(), ["extra/a.jsonl", "extra/deep/b.jsonl"]);
        assert_eq!(files("folder", Some("test")).unwrap(), ["folder/test.csv"]);
        assert_eq!(files("here", None).unwrap(), ["maps/a.csv"]);
        assert_eq!(files("map", Some("dev")).unwrap(), ["maps/a.csv"]);
        let error = files("map", None).unwrap_err();
        assert!(
            error.contains("has no split `train`") && error.contains("held_out"),
            "{error}"
        );
    }

    #[test]
    fn a_split_is_the_one_with_its_name_before_one_with_another() {
        assert_eq!(files("both", Some("validation")).unwrap(), ["maps/b.csv"]);
        assert_eq!(files("both", Some("dev")).unwrap(), ["maps/a.csv"]);
    }

    /// As `datasets.data_files.DataFilesList.from_patterns`: a file that two patterns name is read twice.
    #[test]
    fn files_are_in_the_order_of_their_patterns() {
        assert_eq!(files("map", Some("held_out")).unwrap(), ["maps/c.csv", "maps/b.csv"]);
        let twice = ["maps/b.csv", "maps/a.csv", "maps/b.csv", "maps/c.csv"];
        assert_eq!(files("twice", None).unwrap(), twice);
        assert_eq!(files("first", None).unwrap(), ["main/train-00000-of-00002.parquet"]);
    }

    #[test]
    fn files_that_are_not_there_are_named() {
        let names = |name, file| {
            let error = files(name, None).unwrap_err();
            assert_eq!(error, format!("has no file `{file}`, which its README names"));
        };
        names("gone", "maps/d.csv");
        names("none", "gone/*");
    }

    #[test]
    fn without_a_default_one_must_be_named() {
        let en = "- config_name: en\n  data_files: maps/a.csv\n";
        let fr = "- config_name: fr\n  data_files: maps/b.csv\n";
        let readme = |configs: &str| format!("---\nconfigs:\n{configs}---\n");
        let error = of(&readme(&format!("{en}{fr}")), None, None).unwrap_err();
        assert_eq!(
            error,
            "has several configurations, and none is the default; it has en, fr"
        );
        let default = "  default: true\n";
        let error = of(&readme(&format!("{en}{default}{fr}{default}")), None, None).unwrap_err();
        assert_eq!(
            error,
            "has several default configurations, which `datasets` refuses, too; it has en, fr"
        );
        assert_eq!(
            of(&readme(&format!("{en}{fr}{default}")), None, None).unwrap(),
            ["maps/b.csv"]
        );
        let only = readme("- data_files: [maps/a.csv]\n");
        assert_eq!(of(&only, None, None).unwrap(), ["maps/a.csv"]);
        assert_eq!(of(&only, Some(DEFAULT), None).unwrap(), ["maps/a.csv"]);
        let configs = Configs::of(&only).unwrap();
        assert!(configs.files_of(Some("de"), &[], None).is_none());
    }

    #[test]
    fn what_the_reader_of_the_files_should_do_is_never_dropped() {
        let readme =
            |settings: &str| format!("---\nconfigs:\n- config_name: en\n  data_files: maps/a.csv\n  {settings}\n---\n");
        for (settings, refused) in [
            ("sep: ;", "sep: \";\""),
            ("names: [a, b]", "names: [\"a\",\"b\"]"),
            ("header: 0\n  skiprows: 2", "skiprows: 2"),
            ("description: English\n  features: [a]", "features: [\"a\"]"),
            ("header:", "header: null"),
            ("sep:", "sep: null"),
            ("skip_blank_lines: false", "skip_blank_lines: false"),
        ] {
            let error = of(&readme(settings), None, None).unwrap_err();
            let expected = format!("asks in its README for `{refused}` (configuration `en`), which is not done here");
            assert_eq!(error, expected);
        }
        for settings in [
            "sep: ','",
            "header: 0",
            "description: English",
            "version: 1.0.0",
            "encoding: utf-8",
            "names:",
            "field: data",
            "sample_by: line",
        ] {
            assert_eq!(of(&readme(settings), None, None).unwrap(), ["maps/a.csv"], "{settings}");
        }
    }

    #[test]
    fn settings_are_those_of_the_files_format() {
        let readme = |file: &str, settings: &str| format!("---\nconfigs:\n- data_files: {file}\n  {settings}\n---\n");
        let of = |file: &str, settings: &str| {
            let configs = Configs::of(&readme(file, settings)).unwrap();
            configs.files_of(None, &[file.to_owned()], None).unwrap().is_ok()
        };
        assert!(of("a.tsv", "sep: \"\\t\"") && !of("a.tsv", "sep: ','"));
        assert!(!of("a.csv", "sep: \"\\t\"") && of("a.parquet", "sep: ';'"));
        assert!(!of("a.json", "field: data") && of("a.csv", "field: data"));
        assert!(of("a.txt", "sample_by: paragraph") && !of("a.txt", "sample_by: line"));
    }

    /// As `datasets.data_files.resolve_pattern`, but that texts in Markdown may be data.
    #[test]
    fn a_pattern_names_data_alone() {
        let of = |pattern: &str, files: &[&str]| {
            let configs = Configs::of(&format!("---\nconfigs:\n- data_files: '{pattern}'\n---\n")).unwrap();
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            let found = configs.files_of(None, &files, None).unwrap();
            found.map_err(|error| error.to_string())
        };
        let files = [
            "d/a.jsonl",
            "d/license_texts.jsonl",
            "d/notes.md",
            "d/config.json",
            "d/requirements.jsonl",
            "d/x.png",
        ];
        assert_eq!(
            of("d/*", &files).unwrap(),
            ["d/a.jsonl", "d/license_texts.jsonl", "d/requirements.jsonl"]
        );
        assert_eq!(of("*.md", &["a.md", "b.md"]).unwrap(), ["a.md", "b.md"]);
        assert_eq!(of(".h/*.jsonl", &[".h/a.jsonl"]).unwrap(), [".h/a.jsonl"]);
        assert!(
            of("d/*.arrow", &["d/a.arrow"])
                .unwrap_err()
                .starts_with("has no files that can be read")
        );
    }

    #[test]
    fn headers_without_configurations_say_nothing() {
        for readme in [
            "",
            "# Quotes",
            "---\nlicense: mit\n---\n",
            "---\nlicense: [\n---\n",
            "---\nlicense: mit\nlicense: other\nconfigs:\n---\n",
            "---\nconfigs: []\n---\n",
        ] {
            let error = of(readme, None, None).unwrap_err();
            assert!(
                error.starts_with("has several files that could be meant"),
                "{readme}: {error}"
            );
        }
    }

    #[test]
    fn configurations_that_cannot_be_read_are_an_error() {
        for readme in [
            "---\nconfigs: [\n---\n",
            "---\n'configs': {\n---\n",
            "---\nconfigs: 3\n---\n",
            "---\nlicense: mit\nconfigs:\n- config_name: [a]\n---\n",
            "---\nconfigs:\n- data_files: [{split: train, path: a.csv}, b.csv]\n---\n",
            "---\nconfigs:\n- data_files: [{split: train, path: a.csv}, {split: train, path: b.csv}]\n---\n",
        ] {
            let error = Configs::of(readme).unwrap_err().to_string();
            assert!(
                error.starts_with("has a README whose `configs` cannot be read: "),
                "{readme}: {error}"
            );
        }
    }
}
