//! The download of one file's content into the cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use base::text::hex;
use hf_hub::api::Progress;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use ureq::Body;
use ureq::http::Response;

use super::cache::Folder;
use super::client::{Client, Failure};
use super::error::{HubError, file_error};
use super::listing::RemoteFile;
use super::name::HubName;
use super::parts::Parts;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 17;

/// A file that is wanted.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) folder: &'a Folder,
    pub(super) name: &'a HubName,
    pub(super) commit: &'a str,
    pub(super) file: &'a str,
    pub(super) remote: &'a RemoteFile,
}

/// The file of what has arrived.
struct Part<'a> {
    file: File,
    path: &'a Path,
    length: u64,
}

/// The gain of the attempts so far.
#[derive(Default)]
struct SoFar {
    /// The most bytes that were there at once: an attempt that brings no more is one in vain.
    reached: u64,
    /// Complete files of another content.
    damaged: u32,
}

impl Download<'_> {
    /// Puts the content into the cache, unless it is there. One process at a time downloads it, goes on where an
    /// earlier one stopped, and gives it its name once length and hash are those of the hub.
    pub(super) fn run(&self, progress: &mut dyn Progress) -> Result<(), HubError> {
        let blob = self.folder.blob(self.remote.hash());
        if self.is_whole(&blob) {
            return Ok(());
        }
        let folder = blob.parent().unwrap_or(&blob);
        fs::create_dir_all(folder).map_err(file_error("make", folder))?;
        let done = self.download(&blob, folder, progress);
        progress.finish();
        done
    }

    fn download(&self, blob: &Path, folder: &Path, progress: &mut dyn Progress) -> Result<(), HubError> {
        let parts = Parts::new(blob);
        let lock = self.folder.lock(self.remote.hash());
        let _lock = parts.wait(&lock, self.client.patience(), || {
            progress.init(self.size(), &format!("{} (by another process)", self.file));
        })?;
        // The process that was waited for may have been after the same file.
        if self.is_whole(blob) {
            return Ok(());
        }
        let part = parts.take_over().map_err(file_error("make a file in", folder))?;
        self.check_space(folder, &part)?;
        progress.init(self.size(), self.file);
        let mut so_far = SoFar::default();
        self.client.persist(|| self.attempt(blob, &part, &mut so_far, progress))
    }

    fn size(&self) -> usize {
        usize::try_from(self.remote.size()).unwrap_or(usize::MAX)
    }

    fn is_whole(&self, blob: &Path) -> bool {
        fs::metadata(blob).is_ok_and(|found| found.is_file() && found.len() == self.remote.size())
    }

    fn check_space(&self, folder: &Path, part: &Path) -> Result<(), HubError> {
        let Ok(disk) = rustix::fs::statvfs(folder) else {
            return Ok(());
        };
        let there = fs::metadata(part).map_or(0, |found| found.len());
        let needed = self.remote.size().saturating_sub(there);
        match disk.f_bavail * disk.f_frsize {
            free if free < needed => Err(HubError::Full {
                path: folder.into(),
                needed,
                free,
            }),
            _ => Ok(()),
        }
    }

    /// Asks for what is missing, adds it, checks the whole, and gives it its name.
    fn attempt(
        &self,
        blob: &Path,
        part: &Path,
        so_far: &mut SoFar,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let open = OpenOptions::new().append(true).create(true).open(part);
        let file = open.map_err(file_error("open", part))?;
        let mut start = file.metadata().map_err(file_error("read", part))?.len();
        if start > self.remote.size() {
            file.set_len(0).map_err(file_error("empty", part))?;
            start = 0;
        }
        if start < self.remote.size() {
            let path = self.path();
            let mut response = self.client.get(&path, start, self.name, Some(self.commit))?;
            if !self.continues(&response, start)? {
                file.set_len(0).map_err(file_error("empty", part))?;
                start = 0;
            }
            progress.init(self.size(), self.file);
            progress.update(usize::try_from(start).unwrap_or(usize::MAX));
            self.receive(
                &mut response,
                &mut Part {
                    file,
                    path: part,
                    length: start,
                },
                so_far,
                progress,
            )?;
        }
        match self.check(part) {
            Ok(None) => self.keep(part, blob).map_err(|error| lost(error, "keep", blob)),
            Ok(Some(reason)) => {
                fs::remove_file(part).map_err(file_error("remove", part))?;
                so_far.damaged += 1;
                if so_far.damaged >= self.client.patience().attempts {
                    return Err(Failure::Final(HubError::Damaged {
                        what: format!("{} of {}", self.file, self.name),
                        reason,
                        attempts: so_far.damaged,
                    }));
                }
                Err(Failure::passing(reason))
            }
            Err(error) => Err(lost(error, "read", part)),
        }
    }

    fn keep(&self, part: &Path, blob: &Path) -> io::Result<()> {
        File::open(part)?.sync_all()?;
        fs::rename(part, blob)
    }

    /// The file's address on the server.
    fn path(&self) -> String {
        let repo = self.name.repo(self.commit);
        let file: Vec<String> = self.file.split('/').map(escaped).collect();
        format!("{}/resolve/{}/{}", repo.url(), self.commit, file.join("/"))
    }

    /// True if the answer goes on at `start`; false if it begins at the file's beginning, or if the part is past the
    /// end.
    fn continues(&self, response: &Response<Body>, start: u64) -> Result<bool, Failure> {
        if response.status().as_u16() != 206 {
            return Ok(start == 0);
        }
        let range = response
            .headers()
            .get("content-range")
            .and_then(|range| range.to_str().ok());
        let range = range.and_then(|range| range.strip_prefix("bytes "));
        let parts = range.and_then(|range| {
            let (place, total) = range.split_once('/')?;
            let (from, _) = place.split_once('-')?;
            // A server may leave the length open.
            let is_total = total == "*" || total.parse() == Ok(self.remote.size());
            Some((from.parse::<u64>().ok()?, is_total))
        });
        match parts {
            Some((from, true)) if from == start => Ok(true),
            _ => Err(Failure::passing("it answers another part of the file")),
        }
    }

    /// Appends the body, not more than the file should have.
    fn receive(
        &self,
        response: &mut Response<Body>,
        part: &mut Part<'_>,
        so_far: &mut SoFar,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        if response.status().as_u16() == 416 {
            return Err(Failure::passing("it has no such part of the file"));
        }
        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; BUFFER];
        let ended = loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break "the connection ends early".to_owned(),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break error.to_string(),
            };
            if part.length + count as u64 > self.remote.size() {
                // What came before cannot be trusted either: the answer is another file's.
                part.file.set_len(0).map_err(file_error("empty", part.path))?;
                return Err(Failure::passing("more arrives than the file has"));
            }
            let written = part.file.write_all(&buffer[..count]);
            written.map_err(|error| self.cannot_write(error, part))?;
            part.length += count as u64;
            progress.update(count);
        };
        if part.length == self.remote.size() {
            return Ok(());
        }
        let has_progress = part.length > so_far.reached;
        so_far.reached = so_far.reached.max(part.length);
        Err(Failure::Passing {
            reason: ended,
            is_busy: false,
            wait: None,
            has_progress,
        })
    }

    fn cannot_write(&self, error: io::Error, part: &Part<'_>) -> HubError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => HubError::Full {
                path: part.path.into(),
                needed: self.remote.size() - part.length,
                free: 0,
            },
            _ => file_error("write", part.path)(error),
        }
    }

    /// The reason why a complete file is not the hub's, if it is not.
    fn check(&self, part: &Path) -> io::Result<Option<String>> {
        let length = fs::metadata(part)?.len();
        if length != self.remote.size() {
            return Ok(Some(format!("{length} bytes instead of {}", self.remote.size())));
        }
        let hash = match self.remote.hash().len() {
            64 => digest(Sha256::new(), part)?,
            // git puts the kind and the length before the content.
            _ => digest(Sha1::new().chain_update(format!("blob {length}\0")), part)?,
        };
        Ok((hash != self.remote.hash().to_ascii_lowercase()).then(|| "its hash is another".into()))
    }
}

/// The failure of a part that is gone: another process took it over, which no lock kept away.
fn lost(error: io::Error, action: &'static str, path: &Path) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::passing("another process takes what has arrived"),
        _ => file_error(action, path)(error).into(),
    }
}

/// The digest of a file in hexadecimal digits.
pub(super) fn digest(mut hasher: impl Digest, path: &Path) -> io::Result<String> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; BUFFER]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// A part of a path as an address has it.
fn escaped(part: &str) -> String {
    let mut out = String::new();
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}
