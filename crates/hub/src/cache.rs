//! A repository's folder in the cache, laid out as Python's `huggingface_hub` does:
//!
//! ```text
//! models--owner--name/refs/main                   the commit of a branch
//! models--owner--name/snapshots/COMMIT/FILE       a link to
//! models--owner--name/blobs/HASH                  the content
//! models--owner--name/trees/COMMIT.json           the list of a commit's files, for a time without a network
//! .locks/models--owner--name/HASH.lock            the lock of a download
//! ```

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use base::whole_file;

use super::error::{HubError, file_error};
use super::listing::Listing;
use super::name::{HubName, is_commit};

/// Replaces a file by a whole one; several processes may.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    whole_file::write(path, |file| file.write_all(content))
}

/// The folder of one repository.
pub(super) struct Folder {
    cache: PathBuf,
    name: HubName,
}

impl Folder {
    pub(super) fn new(cache: &Path, name: &HubName) -> Self {
        Self {
            cache: cache.to_path_buf(),
            name: name.clone(),
        }
    }

    fn folder_name(&self) -> String {
        self.name.repo(self.name.revision()).folder_name()
    }

    /// The folder's own path.
    fn path(&self) -> PathBuf {
        self.cache.join(self.folder_name())
    }

    fn reference(&self) -> PathBuf {
        self.path().join("refs").join(self.name.revision())
    }

    /// The commit that the revision was at when it was last asked for.
    pub(super) fn commit(&self) -> Option<String> {
        if self.name.is_commit() {
            return Some(self.name.revision().to_owned());
        }
        let commit = fs::read_to_string(self.reference()).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Keeps the commit of a branch or tag, for a time without a network. A cache that cannot be written does without.
    pub(super) fn keep_commit(&self, commit: &str) {
        if !self.name.is_commit() && self.commit().as_deref() != Some(commit) {
            let _ = write(&self.reference(), commit.as_bytes());
        }
    }

    fn kept_listing(&self, commit: &str) -> PathBuf {
        self.path().join("trees").join(format!("{commit}.json"))
    }

    /// Keeps the hub's list of a commit's files, which never changes, as [`Self::keep_commit`] does.
    pub(super) fn keep_listing(&self, listing: &Listing) {
        // Python's list has more fields.
        if self.listing(&listing.commit).is_none()
            && let Ok(text) = listing.to_kept()
        {
            let _ = write(&self.kept_listing(&listing.commit), &text);
        }
    }

    /// The list of a commit's files that an earlier program kept.
    pub(super) fn listing(&self, commit: &str) -> Option<Listing> {
        let text = fs::read(self.kept_listing(commit)).ok()?;
        Listing::from_kept(commit, &text).ok()
    }

    /// Removes the list of a commit's files, which may be what is wrong.
    pub(super) fn forget_listing(&self, commit: &str) {
        // What cannot be removed is replaced by the next list.
        let _ = fs::remove_file(self.kept_listing(commit));
    }

    /// The folder of a commit's files.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.path().join("snapshots").join(commit)
    }

    /// The file of some content.
    pub(super) fn blob(&self, hash: &str) -> PathBuf {
        self.path().join("blobs").join(hash)
    }

    /// The lock of a download.
    pub(super) fn lock(&self, hash: &str) -> PathBuf {
        self.cache
            .join(".locks")
            .join(self.folder_name())
            .join(format!("{hash}.lock"))
    }

    /// A file of a commit, if its content is there.
    pub(super) fn find(&self, commit: &str, file: &str) -> Option<PathBuf> {
        Some(self.snapshot(commit).join(file)).filter(|path| path.is_file())
    }

    /// The hash of a file of a commit: the name of the content that its link leads to.
    pub(super) fn hash(&self, commit: &str, file: &str) -> Option<String> {
        let target = fs::read_link(self.snapshot(commit).join(file)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Gives a commit's file its content. A link that leads elsewhere is replaced.
    pub(super) fn link(&self, commit: &str, file: &str, hash: &str) -> Result<PathBuf, HubError> {
        let path = self.snapshot(commit).join(file);
        let up = "../".repeat(2 + file.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{hash}"));
        if path.is_file() && fs::read_link(&path).is_ok_and(|now| now == target) {
            return Ok(path);
        }
        let link = || {
            let folder = path.parent().unwrap_or(&path);
            fs::create_dir_all(folder)?;
            let mut temporary = tempfile::Builder::new();
            let temporary = temporary.prefix(whole_file::TEMPORARY);
            let new = temporary.make_in(folder, |new| symlink(&target, new))?;
            new.persist(&path).map(drop).map_err(|error| error.error)
        };
        link().map_err(file_error("link", &path))?;
        Ok(path)
    }
}
