//! One run at a time in a study's folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use records::store::make_room_unless_file;

use super::error::RunError;

/// The lock of a folder that a run writes into. The kernel releases it at any end of the process.
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(super) fn acquire(folder: &Path, lock: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::Folder {
            path: folder.to_path_buf(),
            source,
        };
        // Nothing is written through a link.
        make_room_unless_file(lock).map_err(failed)?;
        // No truncation: until the lock is ours, the content is the holder's.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message: it may be missing or not yet written.
                let _ = file.read_to_string(&mut holder);
                return Err(RunError::Locked {
                    path: folder.to_path_buf(),
                    holder: holder.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let first = FolderLock::acquire(folder.path(), &path).unwrap();
        let Err(refused) = FolderLock::acquire(folder.path(), &path) else {
            panic!("two locks")
        };
        let message = refused.to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        drop(first);
        assert!(FolderLock::acquire(folder.path(), &path).is_ok());
    }
}
