//! The files of a repository at a commit, by the hub's answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::name::is_inside;

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemoteFile {
    /// Bytes.
    pub(super) size: u64,
    /// SHA-256 of a large file (64 digits), else the id of git's blob (40 digits). The cache's name of the content.
    pub(super) hash: String,
}

/// A commit and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: BTreeMap<String, RemoteFile>,
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
    /// Reads the answer for `/api/models/ID/revision/REVISION?blobs=true` or a data set's. Files whose names lead out of
    /// their folder are left out.
    ///
    /// # Errors
    /// The reason why it is not such an answer.
    pub(super) fn read(answer: &[u8]) -> Result<Self, String> {
        let info: Info = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
        if !super::name::is_commit(&info.sha) {
            return Err(format!(
                "its commit is `{}`",
                info.sha.chars().take(80).collect::<String>()
            ));
        }
        let mut files = BTreeMap::new();
        for sibling in info.siblings.into_iter().filter(|sibling| is_inside(&sibling.name)) {
            let file = match (sibling.lfs, sibling.size, sibling.blob_id) {
                (Some(large), ..) => RemoteFile {
                    size: large.size,
                    hash: large.sha256,
                },
                (None, Some(size), Some(hash)) => RemoteFile { size, hash },
                _ => return Err(format!("it gives no size and hash of {}", sibling.name)),
            };
            let digits = file.hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digits || !matches!(file.hash.len(), 40 | 64) {
                return Err(format!("the hash of {} is not one", sibling.name));
            }
            files.insert(sibling.name, file);
        }
        Ok(Self {
            commit: info.sha,
            files,
        })
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
            .map(|(name, file)| (name.as_str(), file.size, file.hash.len()))
            .collect();
        assert_eq!(files, [("config.json", 12, 40), ("x/model.safetensors", 99, 64)]);
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
    }
}
