//! The files of a repository at a commit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::name::{is_commit, is_inside};

/// The format of kept lists that is known here.
const FORMAT: u32 = 1;

/// A file of a repository, as Python's `huggingface_hub` keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemoteFile {
    size: u64,
    /// The id of git's blob: 40 digits.
    blob_id: String,
    /// SHA-256 of a large file: 64 digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lfs_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lfs_size: Option<u64>,
}

impl RemoteFile {
    /// The length in bytes.
    pub(super) fn size(&self) -> u64 {
        self.lfs_size.unwrap_or(self.size)
    }

    /// The cache's name of the content: SHA-256 of a large file, else the id of git's blob.
    pub(super) fn hash(&self) -> &str {
        self.lfs_sha256.as_deref().unwrap_or(&self.blob_id)
    }

    fn has_hash(&self) -> bool {
        let length = if self.lfs_sha256.is_some() { 64 } else { 40 };
        self.hash().len() == length && self.hash().bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

/// A commit and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: BTreeMap<String, RemoteFile>,
}

/// A commit's files as Python's `huggingface_hub` keeps them, in `trees/COMMIT.json`.
#[derive(Serialize, Deserialize)]
struct Kept {
    format_version: u32,
    files: BTreeMap<String, RemoteFile>,
}

#[derive(Deserialize)]
struct Info {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    #[serde(rename = "rfilename")]
    name: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Large>,
}

#[derive(Deserialize)]
struct Large {
    sha256: String,
    size: u64,
}

impl Listing {
    /// Reads the answer for `/api/models/ID/revision/REVISION?blobs=true` or a data set's. Files whose names lead out
    /// of their folder are left out.
    ///
    /// # Errors
    /// The reason why it is not such an answer.
    pub(super) fn read(answer: &[u8]) -> Result<Self, String> {
        let info: Info = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
        if !is_commit(&info.sha) {
            return Err(format!(
                "its commit is `{}`",
                info.sha.chars().take(80).collect::<String>()
            ));
        }
        let files = info.siblings.into_iter().map(|sibling| {
            let (Some(size), Some(blob_id)) = (sibling.size, sibling.blob_id) else {
                return Err(format!("it gives no size and hash of {}", sibling.name));
            };
            let (lfs_sha256, lfs_size) = sibling.lfs.map(|large| (large.sha256, large.size)).unzip();
            let file = RemoteFile {
                size,
                blob_id,
                lfs_sha256,
                lfs_size,
            };
            Ok((sibling.name, file))
        });
        Self::of(info.sha, files.collect::<Result<_, _>>()?)
    }

    /// Reads a kept list.
    ///
    /// # Errors
    /// The reason why it is not one.
    pub(super) fn from_kept(commit: &str, text: &[u8]) -> Result<Self, String> {
        let kept: Kept = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match kept.format_version {
            FORMAT => Self::of(commit.to_owned(), kept.files),
            other => Err(format!("its format is {other}")),
        }
    }

    /// The text of a kept list.
    pub(super) fn to_kept(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec_pretty(&Kept {
            format_version: FORMAT,
            files: self.files.clone(),
        })
    }

    fn of(commit: String, mut files: BTreeMap<String, RemoteFile>) -> Result<Self, String> {
        files.retain(|name, _| is_inside(name));
        match files.iter().find(|(_, file)| !file.has_hash()) {
            Some((name, _)) => Err(format!("the hash of {name} is not one")),
            None => Ok(Self { commit, files }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_and_small_files() {
        let (git, sha256) = ("1f".repeat(20), "ab".repeat(32));
        let answer = json!({ "sha": "c0".repeat(20), "id": "a/b", "siblings": [
            { "rfilename": "config.json", "size": 12, "blobId": git },
            { "rfilename": "x/model.safetensors", "size": 134, "blobId": git, "lfs": { "sha256": sha256, "size": 99, "pointerSize": 134 } },
            { "rfilename": "../evil", "size": 1, "blobId": git },
        ]});
        let listing = Listing::read(answer.to_string().as_bytes()).unwrap();
        let files: Vec<_> = listing
            .files
            .iter()
            .map(|(name, file)| (name.as_str(), file.size(), file.hash().len()))
            .collect();
        assert_eq!(files, [("config.json", 12, 40), ("x/model.safetensors", 99, 64)]);
        let kept = listing.to_kept().unwrap();
        assert_eq!(Listing::from_kept(&listing.commit, &kept), Ok(listing));
    }

    #[test]
    fn other_answers_are_errors() {
        let commit = "c0".repeat(20);
        for answer in [
            json!({ "error": "no" }),
            json!({ "sha": "main" }),
            json!({ "sha": commit, "siblings": [{ "rfilename": "a" }] }),
            json!({ "sha": commit, "siblings": [{ "rfilename": "a", "size": 1, "blobId": "../../x" }] }),
        ] {
            assert!(Listing::read(answer.to_string().as_bytes()).is_err(), "{answer}");
        }
        assert!(Listing::read(b"<html>").is_err());
        let kept = |version: u32, name: &str, blob: &str| {
            let text = json!({ "format_version": version, "files": { name: { "size": 1, "blob_id": blob } } });
            Listing::from_kept(&commit, text.to_string().as_bytes()).map(|listing| listing.files.len())
        };
        assert_eq!(kept(1, "a", &commit), Ok(1));
        assert_eq!(kept(1, "../a", &commit), Ok(0));
        assert!(kept(2, "a", &commit).is_err() && kept(1, "a", "../../x").is_err());
    }
}
