//! Errors of the hub.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base::text::format::{bytes, seconds};
use base::text::suggestion;

use super::name::HubName;

/// A repository or file that cannot be had, and what helps.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants and their fields are")]
pub enum HubError {
    #[error("{endpoint} has no {} `{}`, or it is private{}", name.noun(), name.id(), private_hint(*has_token))]
    NoRepository {
        endpoint: String,
        name: Box<HubName>,
        has_token: bool,
    },
    #[error(
        "the {} `{}` is gated; accept its conditions on {endpoint}/{}, and {}",
        name.noun(), name.id(), name.page(),
        if *has_token { "give the token of that account in HF_TOKEN" } else { "give your token in HF_TOKEN" }
    )]
    Gated {
        endpoint: String,
        name: Box<HubName>,
        has_token: bool,
    },
    #[error("{endpoint} does not accept the token; make a new one, and give it in HF_TOKEN")]
    Token { endpoint: String },
    #[error(
        "the {} `{}` has no revision `{}`; a revision is a branch, a tag or a commit",
        name.noun(), name.id(), name.revision()
    )]
    NoRevision { name: Box<HubName> },
    #[error("the {} `{}` has no file {file} at {commit}{}", name.noun(), name.id(), listed(choices))]
    NoFile {
        name: Box<HubName>,
        commit: String,
        file: String,
        choices: Vec<String>,
    },
    #[error(
        "the model `{}` has no safetensors files{}; other formats are not read", name.id(),
        if *has_pickles { ", only pickled ones (pytorch_model.bin), which could run any program" } else { "" }
    )]
    NoWeights { name: Box<HubName>, has_pickles: bool },
    #[error("{} {error}{}", data_set(name), split_hint(name, error))]
    Split { name: Box<HubName>, error: SplitError },
    #[error("{name} is one file, and the split `{split}` is one of several; leave out the file or the split")]
    SplitOfFile { name: Box<HubName>, split: String },
    #[error(
        "the cache may hold a part of {name} alone ({reason}); name one of its files, or fetch it once with a network"
    )]
    Unlisted { name: Box<HubName>, reason: String },
    #[error(
        "{name} is not in the cache ({}{}), and HF_HUB_OFFLINE is set; unset it, or fetch the {} first",
        cache.display(), after_colon(missing.as_deref()), name.noun()
    )]
    Offline {
        name: Box<HubName>,
        cache: PathBuf,
        missing: Option<String>,
    },
    #[error("{endpoint} cannot be used: {reason}; look at the network, the proxy (HTTPS_PROXY) and HF_ENDPOINT")]
    Unreachable { endpoint: String, reason: String },
    #[error("{endpoint} is busy ({reason}){}; try again later", asked_wait(*wait))]
    Busy {
        endpoint: String,
        reason: String,
        wait: Option<Duration>,
    },
    #[error("{endpoint} answers {status} for {what}{}", after_colon(message.as_deref()))]
    Refused {
        endpoint: String,
        what: String,
        status: u16,
        message: Option<String>,
    },
    #[error("{what} arrives damaged ({reason}), {attempts} times in a row; what was fetched is removed")]
    Damaged {
        what: String,
        reason: String,
        attempts: u32,
    },
    #[error(
        "{} needs {}, and its disk has {} left; free some, or move the cache with HF_HUB_CACHE",
        path.display(), bytes((*needed).into()), bytes((*free).into())
    )]
    Full { path: PathBuf, needed: u64, free: u64 },
    #[error(
        "another process has held {} for {} without progress; end it, or try again",
        lock.display(), seconds(waited.as_secs_f64().into())
    )]
    Locked { lock: PathBuf, waited: Duration },
    #[error("cannot {action} {path} of the cache: {source}", path = path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl HubError {
    /// The reason why the server cannot be asked, if that is the error.
    pub(super) fn silence(&self) -> Option<&str> {
        match self {
            Self::Unreachable { reason, .. } | Self::Busy { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// Makes an error of a file in the cache.
pub(super) fn file_error(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> HubError {
    let path = path.into();
    move |source| HubError::File { action, path, source }
}

fn asked_wait(wait: Option<Duration>) -> String {
    let seconds = |wait: Duration| seconds(wait.as_secs_f64().into());
    wait.map_or_else(String::new, |wait| format!(" and asks to wait {}", seconds(wait)))
}

fn after_colon(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(": {text}"))
}

fn private_hint(has_token: bool) -> &'static str {
    match has_token {
        true => " and the token in use may not see it",
        false => "; a private one needs your token in HF_TOKEN",
    }
}

/// The data set, or the configuration or the folder of it that a name gives.
fn data_set(name: &HubName) -> String {
    let folder = name.file().map_or_else(String::new, |folder| format!("`{folder}` of "));
    format!("{folder}the data set `{}`", name.id())
}

/// Files that are not one split. The messages go behind the data set's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// None of the files is data.
    #[error("has no files that can be read (parquet, jsonl, json, csv, txt)")]
    NoData,
    /// Other splits are there.
    #[error("has no split `{split}`{}{}", listed(splits), did_you_mean(split, splits))]
    NoSplit {
        /// The split that was asked for.
        split: String,
        /// The splits that are there.
        splits: Vec<String>,
    },
    /// Several sets of files could be meant: subsets, languages, or formats.
    #[error("has several files that could be meant{}", listed(choices))]
    Several {
        /// Their folders, or the files if they share one.
        choices: Vec<String>,
    },
    /// Several configurations, and none without a name.
    #[error("has several configurations, and none is the default{}", listed(choices))]
    NoDefault {
        /// Their names.
        choices: Vec<String>,
    },
    /// Several configurations call themselves the default.
    #[error(
        "has several default configurations, which `datasets` refuses, too{}",
        listed(choices)
    )]
    Defaults {
        /// Their names.
        choices: Vec<String>,
    },
    /// A configuration wants its files read in another way.
    #[error("asks in its README for `{setting}` (configuration `{config}`), which is not done here")]
    Setting {
        /// The configuration's name.
        config: String,
        /// The key with its value.
        setting: String,
    },
    /// A configuration names files that are not there.
    #[error("has no file `{file}`, which its README names")]
    NoSuchFile {
        /// The name or the pattern.
        file: String,
    },
    /// The README's header has configurations that make no sense.
    #[error("has a README whose `configs` cannot be read: {reason}")]
    Header {
        /// What is wrong with them.
        reason: String,
    },
    /// The names tell of more parts than there are.
    #[error("has {found} of the {total} parts of {file}")]
    MissingParts {
        /// The first part that is there.
        file: String,
        /// The number of parts that are there.
        found: usize,
        /// The number that their names tell.
        total: usize,
    },
}

/// What to write instead.
fn split_hint(name: &HubName, error: &SplitError) -> String {
    match error {
        SplitError::NoData => format!(
            "; its conversion to Parquet may be at hf://datasets/{}@refs/convert/parquet",
            name.id()
        ),
        SplitError::Several { choices } | SplitError::NoDefault { choices } | SplitError::Defaults { choices } => {
            choices.first().map_or_else(String::new, |choice| {
                format!("; name one, such as `{}`", name.with_file(choice))
            })
        }
        SplitError::Setting { .. } => {
            "; name one of its files, and give the key beside it if it is one of a spec's".into()
        }
        SplitError::Header { .. } | SplitError::NoSuchFile { .. } => "; name one of its files".into(),
        SplitError::NoSplit { .. } | SplitError::MissingParts { .. } => String::new(),
    }
}

fn did_you_mean(split: &str, splits: &[String]) -> String {
    let near = suggestion(split, splits.iter().map(String::as_str));
    near.map_or_else(String::new, |near| format!("; {near}"))
}

/// Some of the names that there are.
fn listed(choices: &[String]) -> String {
    const MOST: usize = 8;
    if choices.is_empty() {
        return String::new();
    }
    let some = choices
        .iter()
        .take(MOST)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match choices.len().saturating_sub(MOST) {
        0 => format!("; it has {some}"),
        more => format!("; it has {some}, and {more} more"),
    }
}
