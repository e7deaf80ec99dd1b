//! Files that appear whole or not at all.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The prefix of temporary files.
pub const TEMPORARY: &str = ".expctl-";

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
        .prefix(TEMPORARY)
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
