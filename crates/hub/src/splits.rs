//! The files of a data set's split, by the names that data sets of the hub have.
//!
//! ```text
//! train.jsonl, quotes-test.jsonl                            a word in the name
//! train_0.csv, train_1.csv                                  several files, by number
//! data/train-00000-of-00002.parquet                         a part, also with a hash behind the total
//! main/train-00000-of-00001.parquet                         a subset's folder
//! train/a.jsonl, default/train/0000.parquet                 a folder; the second is how the hub converts data sets
//! ```
//!
//! These are the rules of Python's `datasets` (`datasets.data_files`), with two differences: all of them hold for each
//! file by itself, and files that may be of several subsets, such as `en/train.csv` and `fr/train.csv`, are not read as
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use options::DataFormat;

use super::error::SplitError;

/// The split that is meant without a word.
pub(super) const TRAIN: &str = "train";

/// The words of a name that say its split, as Python's `datasets` reads them.
const WORDS: [(&str, &[&str]); 3] = [
    (TRAIN, &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The data files of a split, in the order of their names. Files that name no split are `train`, if none does.
///
/// # Errors
/// There are none, or several sets of them.
pub fn files_of_split(files: &[String], split: Option<&str>) -> Result<Vec<String>, SplitError> {
    let wholes = wholes_of_split(files, split)?;
    let mut sets: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (whole, parts) in &wholes {
        let first = parts.first().copied().unwrap_or_default();
        sets.entry(whole.set()).or_insert(first);
    }
    if sets.len() > 1 {
        return Err(SplitError::Several {
            choices: choices(sets.into_values()),
        });
    }
    parts(wholes)
}

/// The data files of a split in a folder of the user's, where several sets of files are read one after the other.
///
/// # Errors
/// There are none.
pub fn files_of_folder(files: &[String], split: Option<&str>) -> Result<Vec<String>, SplitError> {
    parts(wholes_of_split(files, split)?)
}

/// The files that are data, each with the parts that it is one of; at least one.
fn wholes_of(files: &[String]) -> Result<BTreeMap<Whole<'_>, Vec<&str>>, SplitError> {
    let mut wholes: BTreeMap<Whole<'_>, Vec<&str>> = BTreeMap::new();
    for file in readable(files) {
        wholes.entry(Whole::of(file)).or_default().push(file);
    }
    match wholes.is_empty() {
        true => Err(SplitError::NoData),
        false => Ok(wholes),
    }
}

/// True if two names stand for one split, such as `dev` and `validation`.
pub fn is_same_split(one: &str, other: &str) -> bool {
    let split = |name| split_of_name(name).unwrap_or(name);
    split(one) == split(other)
}

/// The split whose name or other name this is.
fn split_of_name(name: &str) -> Option<&'static str> {
    let mut splits = WORDS.iter();
    let (split, _) = splits.find(|(_, words)| words.contains(&name))?;
    Some(*split)
}

/// All parts of these files, if all are there.
fn parts(wholes: BTreeMap<Whole<'_>, Vec<&str>>) -> Result<Vec<String>, SplitError> {
    let parts = wholes.iter().map(|(whole, parts)| whole.check(parts));
    let mut parts: Vec<String> = parts.collect::<Result<Vec<_>, _>>()?.concat();
    parts.sort_unstable();
    Ok(parts)
}

/// The sets of files of a split, at least one.
fn wholes_of_split<'a>(
    files: &'a [String],
    split: Option<&str>,
) -> Result<BTreeMap<Whole<'a>, Vec<&'a str>>, SplitError> {
    let mut wholes = wholes_of(files)?;
    let names: BTreeSet<String> = wholes.keys().filter_map(Whole::split).collect();
    let wanted = split.unwrap_or(TRAIN);
    let is_one_file = split.is_none() && wholes.len() == 1;
    let alike = || names.iter().find(|name| is_same_split(name, wanted));
    let known = names.get(wanted).or_else(alike).map(String::as_str);
    let known = known.or_else(|| split_of_word(wanted));
    wholes.retain(|whole, _| {
        let split = whole.split().or_else(|| names.is_empty().then(|| TRAIN.to_owned()));
        is_one_file || split.is_some() && split.as_deref() == known
    });
    if wholes.is_empty() {
        return Err(SplitError::NoSplit {
            split: wanted.into(),
            splits: match names.is_empty() {
                true => vec![TRAIN.into()],
                false => names.into_iter().collect(),
            },
        });
    }
    Ok(wholes)
}

/// True if a path has a wildcard.
pub fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Leaves texts in Markdown out, which are mostly about the data, unless there is nothing else.
pub(super) fn leave_markdown_out<T: AsRef<str>>(files: &mut Vec<T>) {
    let is_markdown = |file: &T| file.as_ref().to_ascii_lowercase().ends_with(".md");
    if !files.iter().all(is_markdown) {
        files.retain(|file| !is_markdown(file));
    }
}

/// The files that are data, in order.
fn readable(files: &[String]) -> Vec<&str> {
    let mut data: Vec<&str> = files.iter().map(String::as_str).filter(|file| is_data(file)).collect();
    leave_markdown_out(&mut data);
    data.sort_unstable();
    data
}

/// True for a file of a known format that is not about the data.
fn is_data(file: &str) -> bool {
    const ABOUT: [&str; 3] = ["readme", "license", "requirements"];
    let name = base_name(file);
    let is_hidden = file
        .split('/')
        .any(|part| part.starts_with('.') || part.starts_with("__"));
    let is_about = ABOUT.iter().any(|start| name.starts_with(start));
    DataFormat::of_path(file).is_some() && !is_hidden && !is_about && !is_description(file)
}

/// True for the names of files that describe data, which Python's `datasets` leaves out, too.
pub(super) fn is_description(file: &str) -> bool {
    const DESCRIPTIONS: [&str; 5] = [
        "readme.md",
        "config.json",
        "dataset_info.json",
        "dataset_infos.json",
        "dataset_dict.json",
    ];
    DESCRIPTIONS.contains(&base_name(file).as_str())
}

fn base_name(file: &str) -> String {
    file.rsplit('/').next().unwrap_or(file).to_ascii_lowercase()
}

/// What the user can write: the folders, if each set of files has its own, else the first file of each.
fn choices<'a>(first: impl Iterator<Item = &'a str>) -> Vec<String> {
    let files: Vec<String> = first.map(str::to_owned).collect();
    let folder = |file: &String| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let folders: Option<BTreeSet<String>> = files.iter().map(folder).collect();
    match folders {
        Some(folders) if folders.len() == files.len() => folders.into_iter().collect(),
        _ => files,
    }
}

/// What the parts of one file share.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Whole<'a> {
    /// The path without `-00000-of-00002` and what follows, or without the number of a converted part.
    name: &'a str,
    extension: &'a str,
    /// The number of parts, if the name says it.
    total: Option<usize>,
}

impl<'a> Whole<'a> {
    fn of(file: &'a str) -> Self {
        let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
        let converted = stem.rsplit_once('/').filter(|(_, part)| is_number(part));
        let (name, total) = match (numbered(stem), converted) {
            (Some((name, total)), _) => (name, Some(total)),
            (None, Some((folder, _))) => (folder, None),
            (None, None) => (stem, None),
        };
        Self { name, extension, total }
    }

    /// The split that the name says. A numbered file may have any: `data/train_sft-00000-of-00003.parquet`.
    fn split(&self) -> Option<String> {
        let (folders, base) = self.name.rsplit_once('/').unwrap_or(("", self.name));
        let is_plain = base
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        // A numbered file of this folder has the split that it is called by, and no other name of it.
        if self.total.is_some() && is_plain && folders == "data" {
            return Some(base.to_owned());
        }
        if self.total.is_some() && is_plain && split_of_word(base).is_some() {
            return Some(split_of_name(base).unwrap_or(base).to_owned());
        }
        let mut names = folders.rsplit('/').chain([base]);
        names.find_map(split_of_word).map(str::to_owned)
    }

    /// What the files of a set share, which are read one after the other: the folder that says their split, or else the
    /// name without its number; and the extension.
    fn set(&self) -> (&'a str, &'a str) {
        let folder = self.name.rsplit_once('/').map(|(folder, _)| folder);
        let above = |folder: &&'a str| folder.rsplit_once('/').map(|(above, _)| above);
        let last_part = |folder: &&str| folder.rsplit('/').next().and_then(split_of_word).is_some();
        let of_split = iter::successors(folder, above).find(last_part);
        let base = self.name.rsplit('/').next().unwrap_or(self.name);
        let unnumbered = || match split_of_word(base) {
            Some(_) => self.name.trim_end_matches(|c: char| c.is_ascii_digit()),
            None => self.name,
        };
        (of_split.unwrap_or_else(unnumbered), self.extension)
    }

    /// The parts, if all are there.
    fn check(&self, parts: &[&str]) -> Result<Vec<String>, SplitError> {
        match self.total {
            Some(total) if total != parts.len() => Err(SplitError::MissingParts {
                file: parts.first().map_or_else(String::new, |file| (*file).to_owned()),
                found: parts.len(),
                total,
            }),
            _ => Ok(parts.iter().map(|file| (*file).to_owned()).collect()),
        }
    }
}

/// Splits `train-00000-of-00002`, or the same with a hash behind it, into the name and the number of parts.
fn numbered(stem: &str) -> Option<(&str, usize)> {
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (name, part) = rest.rsplit_once('-')?;
    let total = total.split_once('-').map_or(total, |(total, _hash)| total);
    (is_number(part) && is_number(total)).then_some((name, total.parse().ok()?))
}

fn is_number(text: &str) -> bool {
    text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The split that a word of a name says. Words end at `-`, `.`, `_`, spaces and digits.
fn split_of_word(name: &str) -> Option<&'static str> {
    let mut words = name.split(|c: char| matches!(c, '-' | '.' | '_' | ' ') || c.is_ascii_digit());
    words.find_map(|word| {
        let mut splits = WORDS.iter();
        let (split, _) = splits.find(|(_, words)| words.iter().any(|known| word.eq_ignore_ascii_case(known)))?;
        Some(*split)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[&str], split: Option<&str>) -> Result<Vec<String>, SplitError> {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        files_of_split(&files, split)
    }

    fn ok(files: &[&str]) -> Result<Vec<String>, SplitError> {
        Ok(files.iter().map(|file| (*file).to_owned()).collect())
    }

    #[test]
    fn a_split_has_several_names() {
        assert!(is_same_split("dev", "validation") && is_same_split("x", "x"));
        assert!(!is_same_split("dev", "test") && !is_same_split("train_sft", "train"));
    }

    /// As in Python's `datasets`, where both are splits of their own.
    #[test]
    fn a_numbered_file_has_the_split_that_it_is_called_by() {
        let both = ["data/dev-00000-of-00001.jsonl", "data/validation-00000-of-00001.jsonl"];
        assert_eq!(chosen(&both, Some("dev")), ok(&both[..1]));
        assert_eq!(chosen(&both, Some("validation")), ok(&both[1..]));
        let one = both.map(str::to_owned);
        assert_eq!(files_of_folder(&one, Some("dev")), ok(&both[..1]));
        assert_eq!(
            chosen(&both[..1], Some("validation")),
            ok(&both[..1]),
            "by another name"
        );
    }

    #[test]
    fn a_split_by_its_files_names() {
        let numbered = [
            "README.md",
            "data/test-00000-of-00001.parquet",
            "data/train-00001-of-00002.parquet",
            "data/train-00000-of-00002.parquet",
        ];
        let hashed = [
            "data/train-00000-of-00002-a09b74b3ef9c3b56.parquet",
            "data/train-00001-of-00002-2a1a02a4d4d2a0e1.parquet",
            "dataset_infos.json",
        ];
        let any = [
            "data/test_sft-00000-of-00001.parquet",
            "data/train_sft-00000-of-00001.parquet",
        ];
        let converted = [
            "default/train/0000.parquet",
            "default/train/0001.parquet",
            "default/test/0000.parquet",
        ];
        let words = [
            "quotes_train.jsonl",
            "quotes.dev.jsonl",
            "Testing/a.jsonl",
            ".cache/train.jsonl",
        ];
        let subset = ["main/train-00000-of-00001.parquet", "main/dev-00000-of-00001.parquet"];
        for (files, split, expected) in [
            (&["README.md", "quotes.jsonl"][..], None, &["quotes.jsonl"][..]),
            (&["README.md", "quotes.jsonl"], Some("train"), &["quotes.jsonl"]),
            (&["test.jsonl"], None, &["test.jsonl"]),
            (&["README.md", "book.md"], None, &["book.md"]),
            (&["notes.md", "quotes.txt"], None, &["quotes.txt"]),
            (&numbered, None, &[numbered[3], numbered[2]]),
            (&numbered, Some("train"), &[numbered[3], numbered[2]]),
            (&numbered, Some("test"), &[numbered[1]]),
            (&hashed, None, &hashed[..2]),
            (&any, Some("train_sft"), &any[1..]),
            (&converted, None, &converted[..2]),
            (&converted, Some("test"), &converted[2..]),
            (&words, None, &words[..1]),
            (&words, Some("validation"), &words[1..2]),
            (&words, Some("dev"), &words[1..2]),
            (&words, Some("test"), &words[2..3]),
            (&subset, Some("validation"), &subset[1..]),
        ] {
            assert_eq!(chosen(files, split), ok(expected), "{files:?} {split:?}");
        }
    }

    /// The structures of the hub's page "File names and splits", and of the folder rules of `datasets.data_files`.
    #[test]
    fn splits_are_those_of_pythons_datasets() {
        let names = ["train.csv", "test.csv", "validation.csv"];
        let anywhere = ["abc-train.csv", "abc test 2.csv", "abc.valid.csv"];
        let data = ["data/train.csv", "data/test.csv", "data/val.csv"];
        let folders = [
            "data/train/bees.parquet",
            "data/train/more/ants.parquet",
            "data/test/bees.parquet",
            "data/validation/bees.parquet",
        ];
        let named_folders = ["my-training.v2/a_test.csv", "dev_set/a.csv", "eval/a.csv", "eval/b.csv"];
        let several = ["train_0.csv", "train_1.csv", "train_2.csv", "test_0.csv"];
        let numbered = [
            "data/train-00000-of-00003.csv",
            "data/train-00001-of-00003.csv",
            "data/train-00002-of-00003.csv",
            "data/random-00000-of-00001.csv",
            "data/validation-00000-of-00001.csv",
        ];
        let in_folders = [
            "train/a-00000-of-00002.csv",
            "train/a-00001-of-00002.csv",
            "train/b-00000-of-00001.csv",
        ];
        let no_words = ["trainset.csv"];
        for (files, split, expected) in [
            (&["README.md", "data.csv"][..], None, &["data.csv"][..]),
            (&names, None, &names[..1]),
            (&names, Some("test"), &names[1..2]),
            (&names, Some("validation"), &names[2..]),
            (&anywhere, None, &anywhere[..1]),
            (&anywhere, Some("test"), &anywhere[1..2]),
            (&anywhere, Some("validation"), &anywhere[2..]),
            (&data, None, &data[..1]),
            (&data, Some("validation"), &data[2..]),
            (&folders, None, &folders[..2]),
            (&folders, Some("test"), &folders[2..3]),
            (&named_folders, None, &named_folders[..1]),
            (&named_folders, Some("validation"), &named_folders[1..2]),
            (&named_folders, Some("test"), &named_folders[2..]),
            (&several, None, &several[..3]),
            (&several, Some("test"), &several[3..]),
            (&numbered, None, &numbered[..3]),
            (&numbered, Some("random"), &numbered[3..4]),
            (&numbered, Some("validation"), &numbered[4..]),
            (&in_folders, None, &in_folders),
            (&no_words, None, &no_words),
        ] {
            assert_eq!(chosen(files, split), ok(expected), "{files:?} {split:?}");
        }
    }

    #[test]
    fn what_is_not_one_split_is_an_error() {
        let message = |files: &[&str], split| chosen(files, split).unwrap_err().to_string();
        assert_eq!(
            message(&["README.md"], None),
            "has no files that can be read (parquet, jsonl, json, csv, txt)"
        );
        let files = ["train.jsonl", "test.jsonl", "validation.jsonl"];
        assert_eq!(
            message(&files, Some("tset")),
            "has no split `tset`; it has test, train, validation; did you mean `test`?"
        );
        assert_eq!(
            message(&["quotes.jsonl"], Some("test")),
            "has no split `test`; it has train"
        );
        assert_eq!(
            message(&["data/train_sft-00000-of-00001.parquet", "test.jsonl"], None),
            "has no split `train`; it has test, train_sft"
        );
        assert_eq!(
            message(&["en/train.jsonl", "fr/train.jsonl", "fr/test.jsonl"], None),
            "has several files that could be meant; it has en, fr"
        );
        assert_eq!(
            message(&["train.jsonl", "train.parquet"], None),
            "has several files that could be meant; it has train.jsonl, train.parquet"
        );
        assert_eq!(
            message(&["b.jsonl", "a.jsonl"], None),
            "has several files that could be meant; it has a.jsonl, b.jsonl"
        );
        assert_eq!(
            message(&["train-00001-of-00002.parquet"], None),
            "has 1 of the 2 parts of train-00001-of-00002.parquet"
        );
    }
}
