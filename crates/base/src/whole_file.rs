//! Files that appear whole or not at all.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The prefix of temporary files and folders. Whoever makes one locks it, so that others know what is left over.
pub const TEMPORARY: &str = ".expctl-";

/// The folder that a file lies in; `.` of a name alone.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Removes the temporary files and folders in `folder` that nobody holds a lock on: those of processes that were killed.
/// One that cannot be removed stays.
pub fn remove_left_over(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        let kind = entry.file_type().ok().filter(|kind| kind.is_dir() || kind.is_file());
        let Some(kind) = kind.filter(|_| is_temporary) else {
            continue;
        };
        let locked = File::open(entry.path()).and_then(|file| file.try_lock().map(|()| file).map_err(io::Error::from));
        if locked.is_ok() {
            let _ = match kind.is_dir() {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
        }
    }
}

/// Replaces a file: `fill` writes a temporary one beside it, which is flushed to the disk and renamed; then the folder
/// is flushed.
///
/// # Errors
/// One of these fails; the old file then stays.
pub fn write(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = folder_of(path);
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY)
        // The umask decides, as for any new file. tempfile's own default is private to the user.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        // tempfile's message names the temporary file, which means nothing to the reader.
        .map_err(|error| io::Error::from(error.kind()))?;
    // Some file systems have no locks, and nothing else needs this one.
    let _ = file.as_file().try_lock();
    fill(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [".expctl-left", ".expctl-held", "mine"] {
            fs::write(path(name), "").unwrap();
        }
        for name in [".expctl-held-folder", ".expctl-left-folder/within"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let held = [".expctl-held", ".expctl-held-folder"].map(|name| File::open(path(name)).unwrap());
        held.iter().for_each(|file| file.try_lock().unwrap());
        remove_left_over(folder.path());
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".expctl-held", ".expctl-held-folder", "mine"]);
    }
}
