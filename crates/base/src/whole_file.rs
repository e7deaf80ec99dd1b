//! Files that appear whole or not at all.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The beginning of the names of all temporary files.
pub const TEMPORARY: &str = ".expctl-";

/// The beginning of the names of this process's temporary files: behind [`TEMPORARY`] its number, by which others know
/// whether they are left over.
pub fn prefix() -> String {
    format!("{TEMPORARY}{}-", std::process::id())
}

/// Removes the temporary files and folders in `folder` that processes left which are gone. One that cannot be removed
/// stays.
pub fn remove_left_over(folder: &Path) {
    let processes = Path::new("/proc");
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(TEMPORARY)?.split_once('-'));
        let is_left = |process: &str| {
            let is_number = process.bytes().all(|byte| byte.is_ascii_digit()) && !process.is_empty();
            is_number && processes.join("self").exists() && !processes.join(process).exists()
        };
        if process.is_some_and(|(process, _)| is_left(process)) {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = match is_folder {
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
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(&prefix())
        // The umask decides, as for any new file. tempfile's own default is private to the user.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        // tempfile's message names the temporary file, which means nothing to the reader.
        .map_err(|error| io::Error::from(error.kind()))?;
    fill(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_left_that_are_gone_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{}x", prefix());
        // No process has so large a number.
        for name in [".expctl-4294967295-a", &own, ".expctl-notes", ".expctl--", "mine"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir_all(folder.path().join(".expctl-4294967294-b/within")).unwrap();
        remove_left_over(folder.path());
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        let mut stay = [own.as_str(), ".expctl-notes", ".expctl--", "mine"];
        stay.sort_unstable();
        assert_eq!(left, stay);
    }
}
