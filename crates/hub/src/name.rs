//! Names of models and data sets on the hub.

use std::fmt::{self, Display, Formatter};

use base::text::{Mistake, quoted};
use hf_hub::{Repo, RepoType};
use options::DataFormat;

/// The scheme of a name that is meant for the hub and nothing else.
const SCHEME: &str = "hf://";

/// The branch that a name without a revision means.
const MAIN: &str = "main";

/// The content of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Model,
    DataSet,
}

/// `owner/name`, `owner/name@revision`, or the same behind `hf://`; a data set's may go on with a file or a folder.
///
/// Shown with its scheme, so that all spellings of one name are the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HubName {
    kind: Kind,
    id: String,
    revision: Option<String>,
    /// A file or a folder of a data set.
    file: Option<String>,
}

impl HubName {
    /// The repository that a cell's `model` names; `None` for a path or a preset.
    ///
    /// # Errors
    /// A name with the scheme that is not a model's.
    pub fn of_model(text: &str) -> Result<Option<Self>, Mistake> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Ok(Self::plain(Kind::Model, text));
        };
        if rest.starts_with("datasets/") {
            return Err(Mistake::new("this is a data set").help("a model is written `hf://owner/name`"));
        }
        let name = Self::parse(Kind::Model, rest).ok_or_else(|| malformed("hf://owner/name@revision"))?;
        Ok(Some(name))
    }

    /// The repository that a cell's `data.path` names; `None` for a path. A plain name that ends like a data file is a
    /// path.
    ///
    /// # Errors
    /// A name with the scheme that is not a data set's.
    pub fn of_data(text: &str) -> Result<Option<Self>, Mistake> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            let is_file = DataFormat::of_path(text).is_some();
            return Ok(Self::plain(Kind::DataSet, text).filter(|_| !is_file));
        };
        let rest = rest.strip_prefix("datasets/").unwrap_or(rest);
        let whole = || malformed("hf://datasets/owner/name@revision/file.parquet");
        let (name, file) = split_file(rest);
        let name = Self::parse(Kind::DataSet, name).ok_or_else(whole)?;
        if file.is_some_and(|file| !is_inside(file)) {
            return Err(whole());
        }
        Ok(Some(Self {
            file: file.map(str::to_owned),
            ..name
        }))
    }

    /// A name without the scheme has an owner.
    fn plain(kind: Kind, text: &str) -> Option<Self> {
        Self::parse(kind, text).filter(|name| name.id.contains('/'))
    }

    /// `owner/name@revision`, or a name from the time before owners.
    fn parse(kind: Kind, text: &str) -> Option<Self> {
        let (id, revision) = match text.split_once('@') {
            Some((id, revision)) => (id, Some(revision)),
            None => (text, None),
        };
        let is_revision = |text: &str| is_inside(text) && !text.contains(char::is_whitespace);
        let parts: Vec<&str> = id.split('/').collect();
        let is_id = parts.len() <= 2 && parts.iter().all(|part| is_name(part)) && id.len() <= 96;
        (is_id && revision.is_none_or(is_revision)).then(|| Self {
            kind,
            id: id.into(),
            revision: revision.map(str::to_owned),
            file: None,
        })
    }

    /// `owner/name`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The revision that is asked for: a branch, a tag or a commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// The file of a data set that is asked for, or the folder, if one is.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// This name with another file or folder.
    pub(super) fn with_file(&self, file: &str) -> Self {
        Self {
            file: Some(file.into()),
            ..self.clone()
        }
    }

    /// Its page on the hub, after the server.
    pub(super) fn page(&self) -> String {
        self.repo(MAIN).url()
    }

    /// True for a whole commit hash, which never moves.
    pub fn is_commit(&self) -> bool {
        is_commit(self.revision())
    }

    /// `model` or `data set`.
    pub fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Model => "model",
            Kind::DataSet => "data set",
        }
    }

    /// The repository at `revision`.
    pub(super) fn repo(&self, revision: &str) -> Repo {
        let kind = match self.kind {
            Kind::Model => RepoType::Model,
            Kind::DataSet => RepoType::Dataset,
        };
        Repo::with_revision(self.id.clone(), kind, revision.into())
    }
}

impl Display for HubName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let folder = match self.kind {
            Kind::Model => "",
            Kind::DataSet => "datasets/",
        };
        write!(f, "{SCHEME}{folder}{}", self.id)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.file.iter().try_for_each(|file| write!(f, "/{file}"))
    }
}

/// True for the 40 digits of a whole commit hash, in lower case as git and Python's `huggingface_hub` write them.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// True for a relative path that stays within its folder.
pub(super) fn is_inside(path: &str) -> bool {
    let parts = path.split('/');
    !path.contains(['\\', '\0']) && parts.into_iter().all(|part| !matches!(part, "" | "." | ".."))
}

/// The hub's rule: letters, digits, `-`, `_` and `.`, no two of `-` or `.` in a row, neither at an end.
fn is_name(part: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty()
        && part.chars().all(known)
        && !part.contains("--")
        && !part.contains("..")
        && !part.starts_with(['-', '.'])
        && !part.ends_with(['-', '.'])
}

/// Splits `owner/name@revision/file` before the file. Only `refs/pr/1` and its like have slashes in a revision.
fn split_file(text: &str) -> (&str, Option<&str>) {
    let id = text.match_indices('/').nth(1).map_or(text.len(), |(at, _)| at);
    let revision = text.find('@').filter(|at| *at < id);
    let slashes = match revision {
        Some(at) if text[at..].starts_with("@refs/") => 3,
        Some(at) if text[..at].contains('/') => 1,
        // A revision of a name without an owner.
        Some(_) => return (text, None),
        None => 2,
    };
    let start = revision.unwrap_or(0);
    match text[start..].match_indices('/').nth(slashes - 1) {
        Some((at, _)) => (&text[..start + at], Some(&text[start + at + 1..])),
        None => (text, None),
    }
}

fn malformed(example: &str) -> Mistake {
    Mistake::new("this is not a name on the hub").help(format!("write it as {}", quoted(example)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Option<String> {
        HubName::of_model(text).unwrap().map(|name| name.to_string())
    }

    fn data(text: &str) -> Option<String> {
        HubName::of_data(text).unwrap().map(|name| name.to_string())
    }

    #[test]
    fn spellings_of_a_model() {
        for same in ["Qwen/Qwen2.5-0.5B", "hf://Qwen/Qwen2.5-0.5B"] {
            assert_eq!(model(same).as_deref(), Some("hf://Qwen/Qwen2.5-0.5B"));
        }
        assert_eq!(model("hf://gpt2").as_deref(), Some("hf://gpt2"));
        let name = HubName::of_model("a/b@refs/pr/7").unwrap().unwrap();
        assert_eq!(
            (name.id(), name.revision(), name.is_commit()),
            ("a/b", "refs/pr/7", false)
        );
        let pinned = HubName::of_model(&format!("a/b@{}", "0a".repeat(20))).unwrap().unwrap();
        assert!(pinned.is_commit());
        for path in [
            "tiny", "./a/b", "../b", "/a/b", "a/b/c", "a/", "a/b c", "a/.b", "a/b@", "a/b@../c", "gpt2",
        ] {
            assert_eq!(model(path), None, "{path}");
        }
        for wrong in ["hf://", "hf://a/b/c", "hf:///a", "hf://datasets/a/b", "hf://a/b@"] {
            assert!(HubName::of_model(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_data_set_may_name_a_file() {
        let parts = |text: &str| {
            let name = HubName::of_data(text).unwrap().unwrap();
            let file = name.file().unwrap_or_default().to_owned();
            (name.id().to_owned(), name.revision().to_owned(), file)
        };
        let of = |id: &str, revision: &str, file: &str| (id.to_owned(), revision.to_owned(), file.to_owned());
        assert_eq!(parts("a/b"), of("a/b", "main", ""));
        assert_eq!(parts("hf://datasets/a/b/c/d.jsonl"), of("a/b", "main", "c/d.jsonl"));
        assert_eq!(parts("hf://a/b@v1/c/d.jsonl"), of("a/b", "v1", "c/d.jsonl"));
        assert_eq!(
            parts("hf://datasets/a/b@refs/convert/parquet/default/train/0000.parquet"),
            of("a/b", "refs/convert/parquet", "default/train/0000.parquet")
        );
        assert_eq!(parts("hf://squad@v2"), of("squad", "v2", ""));
        assert_eq!(data("hf://a/b@v1/c.txt").as_deref(), Some("hf://datasets/a/b@v1/c.txt"));
        assert_eq!(HubName::of_data("data/train.jsonl").unwrap(), None);
        assert!(HubName::of_data("hf://a/b/../c").is_err());
    }
}
