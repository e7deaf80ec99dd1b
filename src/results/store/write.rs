//! Atomic writes.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{StoreError, io_error};

/// The prefix of temporary files.
const TEMPORARY: &str = ".expctl-";

/// Removes the temporary files of a process that was killed in the middle of a write.
///
/// # Errors
/// The folder cannot be listed, or a file not removed.
pub fn remove_temporaries(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Replaces a file: writes a temporary file beside it, flushes that to the disk, renames it, and flushes the folder.
///
/// # Errors
/// One of these fails; the old file then stays.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            // The umask decides, as for any new file. tempfile's own default is private to the user.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            // tempfile's message names the temporary file, which means nothing to the reader.
            .map_err(|error| io::Error::from(error.kind()))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(io_error("write", path))
}

/// Like [`write_atomically`], but leaves a file alone that already has these bytes. Returns true if it wrote.
///
/// # Errors
/// Those of [`write_atomically`].
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    write_atomically(path, bytes).map(|()| true)
}
