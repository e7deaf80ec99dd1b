//! The part of a content that has arrived, and the wait for other processes that download the same.
//!
//! Each process writes into a file of its own, `blobs/HASH.XXXXXXXX.incomplete`, as Python's `huggingface_hub` does: on
//! some file systems everybody gets the lock. So a lock that does not hold costs a second download and never a wrong
//! file. A part that an earlier process left is taken over, Python's too.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{HubError, file_error};
use super::settings::Patience;

/// The end of a part's name.
const INCOMPLETE: &str = ".incomplete";

/// The time between two looks at what another process does.
const LOOK: Duration = Duration::from_millis(50);

/// The parts of the content whose file will be `blob`.
pub(super) struct Parts<'a> {
    blob: &'a Path,
}

impl<'a> Parts<'a> {
    pub(super) fn new(blob: &'a Path) -> Self {
        Self { blob }
    }

    /// The parts with their lengths in bytes, the longest first.
    fn find(&self) -> Vec<(u64, PathBuf)> {
        let folder = self.blob.parent().unwrap_or(self.blob);
        let hash = self.blob.file_name().unwrap_or_default().to_string_lossy();
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let parts = entries.filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Earlier versions of Python's wrote `HASH.incomplete`.
            name.strip_prefix(&*hash)
                .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(INCOMPLETE))
        });
        let mut found: Vec<_> = parts
            .filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path())))
            .collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// Waits while another process downloads: it holds the lock, or a part grows. Returns the lock, which lasts as long
    /// as the file is open. `on_wait` is called before the first wait for another process.
    ///
    /// # Errors
    /// Another process holds the lock for longer than `patience.lock` without progress.
    pub(super) fn wait(&self, lock: &Path, patience: &Patience, mut on_wait: impl FnMut()) -> Result<File, HubError> {
        let failed = || file_error("lock", lock);
        fs::create_dir_all(lock.parent().unwrap_or(lock)).map_err(failed())?;
        let options = OpenOptions::new().write(true).create(true).truncate(false).open(lock);
        let file = options.map_err(failed())?;
        let (mut since, mut last) = (Instant::now(), self.find());
        let mut is_told = false;
        loop {
            let is_mine = match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) if has_no_locks(&error) => {
                    // Without locks, Python takes the existence of a file for one, and an empty file for one without an
                    // end.
                    if fs::metadata(lock).is_ok_and(|found| found.len() == 0) {
                        let _ = fs::remove_file(lock);
                    }
                    true
                }
                Err(TryLockError::Error(error)) => return Err(failed()(error)),
            };
            let waited = since.elapsed();
            if is_mine && (last.is_empty() || waited >= patience.quiet) {
                return Ok(file);
            }
            if !is_mine && waited > patience.lock {
                return Err(HubError::Locked {
                    lock: lock.into(),
                    waited,
                });
            }
            if !is_mine && !is_told {
                is_told = true;
                on_wait();
            }
            std::thread::sleep(LOOK);
            let now = self.find();
            if now != last {
                (since, last) = (Instant::now(), now);
            }
        }
    }

    /// A new part, with what an earlier process left. The other parts are removed. Only for who has waited.
    pub(super) fn take_over(&self) -> io::Result<PathBuf> {
        let folder = self.blob.parent().unwrap_or(self.blob);
        let hash = self.blob.file_name().unwrap_or_default().to_string_lossy();
        let left = self.find();
        let new = tempfile::Builder::new()
            .prefix(&format!("{hash}."))
            .suffix(INCOMPLETE)
            .rand_bytes(8)
            // The umask decides, as for any new file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        let (_, path) = new.keep().map_err(|error| error.error)?;
        let mut left = left.into_iter();
        if let Some((_, longest)) = left.next() {
            // Another process may have been faster.
            let _ = fs::rename(longest, &path);
        }
        for (_, other) in left {
            let _ = fs::remove_file(other);
        }
        Ok(path)
    }
}

/// True for an error of a file system that has no locks, or whose service for them is down.
fn has_no_locks(error: &io::Error) -> bool {
    let no_service = rustix::io::Errno::NOLCK.raw_os_error();
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(no_service)
}
