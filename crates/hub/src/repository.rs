//! A repository at a commit.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use hf_hub::api::Progress;
use sha2::{Digest, Sha256};

use super::cache::Folder;
use super::client::{Client, Failure};
use super::download::{Download, digest};
use super::error::{HubError, file_error};
use super::listing::Listing;
use super::name::{HubName, is_commit};
use super::roots::{Revision, Snapshot};
use super::settings::Settings;

/// The largest list of files that is read, in bytes.
const LARGEST_LISTING: u64 = 256 << 20;

/// The hub, or a mirror of it, and the cache.
pub struct Hub {
    client: Client,
    cache: PathBuf,
    offline: bool,
    /// The reason why the server did not answer. From then on only the cache is asked.
    silence: OnceCell<String>,
    /// The lists so far, by their addresses.
    listings: RefCell<BTreeMap<String, Rc<Listing>>>,
}

impl Hub {
    /// Nothing is asked yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            client: Client::new(settings),
            cache: settings.cache.clone(),
            offline: settings.offline,
            silence: OnceCell::new(),
            listings: RefCell::default(),
        }
    }

    /// The repository at the commit that its revision is at now. If the server cannot be reached, it is the commit that
    /// the cache knows, with the reason in [`Repository::stale`]. Repositories of several files are asked for once.
    ///
    /// # Errors
    /// The repository or its revision is missing or not for this user; or the hub is not reached and the cache has
    /// nothing.
    pub fn open(&self, name: &HubName) -> Result<Repository<'_>, HubError> {
        let folder = Folder::new(&self.cache, name);
        let listing = OnceCell::new();
        let known = folder.commit();
        let commit = match known {
            Some(commit) if name.is_commit() => commit,
            known if self.is_cached_only() => known.ok_or_else(|| self.not_cached(name, None))?,
            known => match (self.listing(name, name.revision()), known) {
                (Err(error), Some(commit)) if self.falls_silent(&error) => commit,
                (asked, _) => {
                    let asked = asked?;
                    folder.keep_commit(&asked.commit);
                    folder.keep_listing(&asked);
                    listing.get_or_init(|| asked).commit.clone()
                }
            },
        };
        Ok(Repository {
            hub: self,
            name: name.clone(),
            folder,
            commit,
            listing,
            used: BTreeMap::new(),
        })
    }

    /// True if only the cache can be asked.
    fn is_cached_only(&self) -> bool {
        self.offline || self.silence.get().is_some()
    }

    /// True if the error is that the server does not answer. It is not asked again then.
    fn falls_silent(&self, error: &HubError) -> bool {
        let reason = error.silence();
        if let Some(reason) = reason {
            let _ = self.silence.set(reason.to_owned());
        }
        reason.is_some()
    }

    /// The error for what the cache does not have, where only it can be asked.
    fn not_cached(&self, name: &HubName, file: Option<&str>) -> HubError {
        match self.silence.get() {
            Some(reason) => HubError::Unreachable {
                endpoint: self.client.endpoint().to_owned(),
                reason: match file {
                    Some(file) => format!("{reason}, and the cache has no {file} of {name}"),
                    None => format!("{reason}, and {name} is not in the cache"),
                },
            },
            None => HubError::Offline {
                name: Box::new(name.clone()),
                cache: self.cache.clone(),
                missing: file.map(str::to_owned),
            },
        }
    }

    /// The hub's list of files at a revision.
    fn listing(&self, name: &HubName, revision: &str) -> Result<Rc<Listing>, HubError> {
        let path = format!("api/{}?blobs=true", name.repo(revision).api_url());
        if let Some(known) = self.listings.borrow().get(&path) {
            return Ok(known.clone());
        }
        let listing = self.client.persist(|| {
            let mut response = self.client.get(&path, 0, name, None)?;
            let body = response.body_mut().with_config().limit(LARGEST_LISTING);
            // A connection may end within the list.
            let answer = body
                .read_to_vec()
                .map_err(|error| Failure::passing(error.to_string()))?;
            let reason = |reason| format!("its list of files is not understood: {reason}");
            let listing = Listing::read(&answer).map_err(|error| Failure::passing(reason(error)))?;
            match is_commit(revision) && listing.commit != revision {
                true => Err(Failure::passing(format!(
                    "it answers commit {} for {revision}",
                    listing.commit
                ))),
                false => Ok(Rc::new(listing)),
            }
        })?;
        self.listings.borrow_mut().insert(path, listing.clone());
        Ok(listing)
    }
}

/// A commit of a repository, whose files come from the cache or the hub.
pub struct Repository<'a> {
    hub: &'a Hub,
    name: HubName,
    folder: Folder,
    commit: String,
    /// The hub's list, once it is known.
    listing: OnceCell<Rc<Listing>>,
    /// The files that were asked for, with their hashes.
    used: BTreeMap<String, String>,
}

impl Repository<'_> {
    /// The name that was asked for.
    pub fn name(&self) -> &HubName {
        &self.name
    }

    /// The commit's hash.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// The reason why the commit may not be the newest.
    pub fn stale(&self) -> Option<&str> {
        self.hub
            .silence
            .get()
            .filter(|_| !self.name.is_commit())
            .map(String::as_str)
    }

    /// True if only the cache can be asked.
    pub fn is_cached_only(&self) -> bool {
        self.hub.is_cached_only()
    }

    /// The hub's list of files, if it is here.
    fn kept_listing(&self) -> Option<&Listing> {
        if self.listing.get().is_none()
            && let Some(listing) = self.folder.listing(&self.commit)
        {
            let _ = self.listing.set(Rc::new(listing));
        }
        self.listing.get().map(Rc::as_ref)
    }

    /// The hub's list of files; `None` if it is not here, and only the cache can be asked.
    fn listing(&self) -> Result<Option<&Listing>, HubError> {
        if self.kept_listing().is_none() && !self.is_cached_only() {
            match self.hub.listing(&self.name, &self.commit) {
                Ok(listing) => {
                    self.folder.keep_listing(&listing);
                    let _ = self.listing.set(listing);
                }
                // The cache may have what is needed: a commit never changes.
                Err(error) if self.hub.falls_silent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.kept_listing())
    }

    /// The names of all files.
    ///
    /// # Errors
    /// The hub does not answer, or only the cache can be asked and has no list of them.
    pub fn files(&self) -> Result<Vec<String>, HubError> {
        match self.listing()? {
            Some(listing) => Ok(listing.files.keys().cloned().collect()),
            None => Err(HubError::Unlisted {
                name: Box::new(self.name.clone()),
                reason: self
                    .hub
                    .silence
                    .get()
                    .cloned()
                    .unwrap_or_else(|| "HF_HUB_OFFLINE is set".into()),
            }),
        }
    }

    /// The error for a file that is not there, with those that are, and what else could be named.
    pub(super) fn no_file(&self, file: &str, mut choices: Vec<String>) -> HubError {
        let listing = self.kept_listing();
        choices.extend(listing.into_iter().flat_map(|listing| listing.files.keys().cloned()));
        HubError::NoFile {
            name: Box::new(self.name.clone()),
            commit: self.commit.clone(),
            file: file.into(),
            choices,
        }
    }

    /// True if the repository has a file, as far as is known. A file in the cache needs no question.
    ///
    /// # Errors
    /// The hub does not answer.
    pub fn has(&self, file: &str) -> Result<bool, HubError> {
        if self.folder.find(&self.commit, file).is_some() {
            return Ok(true);
        }
        Ok(self.listing()?.is_some_and(|listing| listing.files.contains_key(file)))
    }

    /// A file's path in the cache; downloaded if it is not there.
    ///
    /// # Errors
    /// The repository has no such file, or it cannot be downloaded.
    pub fn fetch(&mut self, file: &str, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let known = self.kept_listing().and_then(|listing| listing.files.get(file));
        let found = self.folder.find(&self.commit, file);
        // A file of another length was damaged after its download.
        let is_whole =
            |path: &PathBuf| known.is_none_or(|known| path.metadata().is_ok_and(|now| now.len() == known.size()));
        if let Some(path) = found.filter(is_whole) {
            let hash = match (self.folder.hash(&self.commit, file), known) {
                (Some(hash), _) => hash,
                (None, Some(known)) => known.hash().to_owned(),
                // A copy instead of a link, on systems without links.
                (None, None) => digest(Sha256::new(), &path).map_err(file_error("read", &path))?,
            };
            self.used.insert(file.into(), hash);
            return Ok(path);
        }
        let Some(listing) = self.listing()? else {
            return Err(self.hub.not_cached(&self.name, Some(file)));
        };
        let Some(remote) = listing.files.get(file).cloned() else {
            return Err(self.no_file(file, Vec::new()));
        };
        if self.is_cached_only() {
            return Err(self.hub.not_cached(&self.name, Some(file)));
        }
        let download = Download {
            client: &self.hub.client,
            folder: &self.folder,
            name: &self.name,
            commit: &self.commit,
            file,
            remote: &remote,
        };
        let downloaded = download.run(progress);
        if let Err(HubError::Damaged { .. }) = downloaded {
            self.folder.forget_listing(&self.commit);
        }
        downloaded?;
        let path = self.folder.link(&self.commit, file, remote.hash())?;
        self.used.insert(file.into(), remote.hash().to_owned());
        Ok(path)
    }

    /// The files that were fetched.
    pub fn into_snapshot(self, is_complete: bool) -> Snapshot {
        Snapshot {
            dir: self.folder.snapshot(&self.commit),
            revision: Revision {
                commit: self.commit,
                files: self.used,
            },
            is_complete,
        }
    }
}
